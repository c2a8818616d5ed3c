package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Types of problems besides those of field errors.
const (
	TypeSyntax         = "Syntax"         // The document is no YAML or JSON.
	TypeUnknownKind    = "UnknownKind"    // Our groups have no such kind.
	TypeUnknownField   = "UnknownField"   // The kind has no such field.
	TypeDuplicateField = "DuplicateField" // The field is given twice.
	TypeMalformed      = "Malformed"      // The field cannot hold the value.
)

const (
	messageUnknown   = "unknown field"
	messageDuplicate = "duplicate field"
)

// Problem is what is wrong with a manifest.
type Problem struct {
	// Type is one of the above or, for a rule, that of the field error, such as FieldValueInvalid.
	Type  string `json:"type"`
	Field string `json:"field,omitempty"`
	// Line of the file at which the field stands, or the nearest field above it. Zero if that is not known.
	Line  int `json:"line,omitempty"`
	Value any `json:"value,omitempty"`
	// Message of a problem with a value says what is allowed.
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

// maxShownValue keeps a problem on one line.
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

// maxShownFindings is what fits on a screen.
const maxShownFindings = 20

// Error returns a line for each finding, at most 20.
func (e Errors) Error() string { return strings.Join(List(e), "\n") }

// List returns a line for each finding, at most 20, and how many more there are.
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
