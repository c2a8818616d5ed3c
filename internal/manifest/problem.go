package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Types of problems in addition to the types of field errors.
const (
	TypeSyntax         = "Syntax"         // The document is not valid YAML or JSON.
	TypeUnknownKind    = "UnknownKind"    // Our groups have no such kind.
	TypeUnknownField   = "UnknownField"   // The kind has no such field.
	TypeDuplicateField = "DuplicateField" // The field is duplicate.
	TypeMalformed      = "Malformed"      // The value has the wrong type.
)

const (
	messageUnknown   = "unknown field"
	messageDuplicate = "duplicate field"
)

// Problem is a problem with a manifest.
type Problem struct {
	// Type is one of the above or, for a rule, the type of the field error, such as FieldValueInvalid.
	Type  string `json:"type"`
	Field string `json:"field,omitempty"`
	// Line is the line of the field in the file, or of its nearest parent with a known line; 0 if not known.
	Line  int `json:"line,omitempty"`
	Value any `json:"value,omitempty"`
	// Message says what is allowed, if the problem is a value.
	Message string `json:"message"`
}

// String returns the problem without its line: <field>: <problem>: <value> (<what is allowed>).
func (p Problem) String() string {
	text := p.Message
	switch p.Type {
	case TypeMalformed, TypeUnknownKind:
		what := "invalid value"
		if p.Type == TypeUnknownKind {
			what = "unknown kind"
		}
		if p.Value != nil {
			text = fmt.Sprintf("%s: %s (%s)", what, short(p.Value), p.Message)
		}
	case TypeSyntax:
		text = "invalid syntax: " + p.Message
	}
	if p.Field == "" {
		return text
	}
	return p.Field + ": " + text
}

// maxShownValue is the maximum length of a value in a problem, in bytes of JSON, so that it fits on one line.
const maxShownValue = 60

func short(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return "the value"
	}
	if len(raw) > maxShownValue {
		return strings.ToValidUTF8(string(raw[:maxShownValue-3]), "") + "..."
	}
	return string(raw)
}

// Finding is a problem and the manifest that has it.
type Finding struct {
	File                  string
	Document              int // Number in the file, from 1.
	Kind, Namespace, Name string
	Problem               Problem
}

// Finding returns a problem of the object.
func (o *Object) Finding(p Problem) Finding {
	if p.Line == 0 {
		p.Line = o.Line(p.Field)
	}
	return Finding{File: o.File, Document: o.Document, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Problem: p}
}

// String returns <file>:<line> <kind> <namespace>/<name>: <problem>. A manifest without a kind is named by its number.
func (f Finding) String() string {
	at := f.File
	if f.Problem.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.File, f.Problem.Line)
	}
	what := strings.Trim(f.Namespace+"/"+f.Name, "/")
	if f.Kind == "" {
		what = strings.TrimSpace(fmt.Sprintf("document %d %s", f.Document, what))
	} else {
		what = strings.TrimSpace(f.Kind + " " + what)
	}
	return fmt.Sprintf("%s %s: %s", at, what, f.Problem)
}

// Errors are all problems that stop a command.
type Errors []Finding

// maxShownFindings is the number of findings that fit on a screen.
const maxShownFindings = 20

// Error returns one line per finding, at most 20.
func (e Errors) Error() string { return strings.Join(List(e), "\n") }

// List returns one line per finding, at most 20, and the number of the others.
func List(findings []Finding) []string {
	var lines []string
	for i, f := range findings {
		if i == maxShownFindings {
			return append(lines, fmt.Sprintf("... and %d more", len(findings)-i))
		}
		lines = append(lines, f.String())
	}
	return lines
}
