package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// Decode reads an object strictly into what into makes, and returns all problems with its fields. Values that the type
// cannot hold are taken out of the object, so that the rest can be checked nevertheless.
func Decode[T any](o *Object, into func() T) (T, []Problem) {
	result := into()
	strict, err := kjson.UnmarshalStrict(o.raw, result)
	if err == nil {
		return result, o.withLines(strictProblems(strict))
	}
	var fields map[string]any
	strict, err = kjson.UnmarshalStrict(o.raw, &fields)
	if err != nil {
		return result, o.withLines([]Problem{{Type: TypeMalformed, Message: reason(err.Error())}})
	}
	problems := strictProblems(strict) // Fields that JSON gives twice.
	s := search{decode: func(fields map[string]any) error { return unmarshal(fields, into()) }}
	s.below(fields, "", func(value any) map[string]any {
		alone, _ := value.(map[string]any)
		return alone
	})
	problems = append(problems, s.problems...)
	result = into()
	if o.raw, err = json.Marshal(fields); err == nil {
		strict, err = kjson.UnmarshalStrict(o.raw, result)
	}
	if err != nil {
		problems = append(problems, Problem{Type: TypeMalformed, Message: reason(err.Error())})
	}
	return result, o.withLines(append(problems, strictProblems(strict)...))
}

// withLines adds the lines of the fields.
func (o *Object) withLines(problems []Problem) []Problem {
	for i := range problems {
		problems[i].Line = o.Line(problems[i].Field)
	}
	return problems
}

func unmarshal(fields map[string]any, into any) error {
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// search finds the innermost values that a type cannot hold. The decoder stops at the first and names only the types
// on the way to it, so each value is decoded alone, with nothing around it but its place in the object.
type search struct {
	decode   func(fields map[string]any) error
	problems []Problem
}

// below looks for wrong values in a value and removes them. alone makes an object that has nothing but a value at the
// place of this one. It reports whether there were any.
func (s *search) below(in any, path string, alone func(value any) map[string]any) bool {
	found := false
	switch in := in.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(in)) {
			alone := func(value any) map[string]any { return alone(map[string]any{key: value}) }
			if !s.value(in[key], childPath(path, key), alone) {
				continue
			}
			if found = true; s.decode(alone(in[key])) != nil { // What is wrong inside is gone; it is wrong itself.
				delete(in, key)
			}
		}
	case []any:
		for i := range in {
			alone := func(value any) map[string]any { return alone([]any{value}) }
			if !s.value(in[i], fmt.Sprintf("%s[%d]", path, i), alone) {
				continue
			}
			if found = true; s.decode(alone(in[i])) != nil {
				in[i] = nil
			}
		}
	}
	return found
}

// value reports the wrong values in a value, or the value itself if it is wrong as a whole.
func (s *search) value(value any, path string, alone func(value any) map[string]any) bool {
	err := s.decode(alone(value))
	if err == nil {
		return false
	}
	if s.decode(alone(empty(value))) != nil || !s.below(value, path, alone) {
		message := reason(err.Error())
		if message == mustBeString && s.decode(alone("")) != nil {
			message = mustHaveFields // Names of types do not tell the two apart.
		}
		s.problems = append(s.problems, Problem{Type: TypeMalformed, Field: path, Value: value, Message: message})
	}
	return true
}

// empty is a container without content, and any other value as it is. Where even that is wrong, the container is.
func empty(value any) any {
	switch value.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	}
	return value
}

const (
	mustBeString   = "must be a string"
	mustHaveFields = "must have fields"
)

var wrongType = regexp.MustCompile(`cannot unmarshal .* of type (\S+)$`)

// reason is what the decoder says about a value, without the names of Go.
func reason(failure string) string {
	match := wrongType.FindStringSubmatch(failure)
	if match == nil {
		return strings.TrimPrefix(failure, "json: ")
	}
	switch want := match[1]; {
	case want == "string" || strings.HasPrefix(want, "v1"):
		return mustBeString
	case want == "bool":
		return "must be true or false"
	case strings.HasPrefix(want, "int"):
		return "must be a whole number"
	case strings.HasPrefix(want, "float"):
		return "must be a number"
	case strings.HasPrefix(want, "[]"):
		return "must be a list"
	default:
		return mustHaveFields
	}
}

// strictProblems turns errors such as `unknown field "spec.x"` into problems.
func strictProblems(strict []error) []Problem {
	var problems []Problem
	for _, err := range strict {
		what, quoted, _ := strings.Cut(err.Error(), " field ")
		path, quoteErr := strconv.Unquote(quoted)
		switch {
		case quoteErr == nil && what == "unknown":
			problems = append(problems, Problem{Type: TypeUnknownField, Field: path, Message: messageUnknown})
		case quoteErr == nil && what == "duplicate":
			problems = append(problems, Problem{Type: TypeDuplicateField, Field: path, Message: messageDuplicate})
		default:
			problems = append(problems, Problem{Type: TypeMalformed, Message: err.Error()})
		}
	}
	return problems
}
