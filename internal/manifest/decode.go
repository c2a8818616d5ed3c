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

// Decode strictly decodes an object into the result of into, and returns all problems with its fields. Values of the
// wrong type are removed from the object, so that the rest can still be checked.
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
	problems := strictProblems(strict) // Fields that are duplicate in JSON.
	s := search{decode: func(fields map[string]any) error { return Unmarshal(fields, into()) }}
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

// withLines adds the line of the field to each problem.
func (o *Object) withLines(problems []Problem) []Problem {
	for i := range problems {
		problems[i].Line = o.Line(problems[i].Field)
	}
	return problems
}

// Unmarshal reads fields into an object without problems of their own: unknown fields are ignored.
func Unmarshal(fields map[string]any, into any) error {
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// search finds the innermost values of the wrong type. The decoder stops at the first one and names only Go types, so
// each value is decoded alone, at its place in an otherwise empty object.
type search struct {
	decode   func(fields map[string]any) error
	problems []Problem
}

// below finds values of the wrong type in a value and removes them. alone returns an object with only a given value at
// the place of this one. It reports whether there were any.
func (s *search) below(in any, path string, alone func(value any) map[string]any) bool {
	found := false
	switch in := in.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(in)) {
			alone := func(value any) map[string]any { return alone(map[string]any{key: value}) }
			if !s.value(in[key], childPath(path, key), alone) {
				continue
			}
			if found = true; s.decode(alone(in[key])) != nil { // It is wrong even without its invalid content.
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

// value reports values of the wrong type inside a value, or the value itself if its own type is wrong.
func (s *search) value(value any, path string, alone func(value any) map[string]any) bool {
	err := s.decode(alone(value))
	if err == nil {
		return false
	}
	if s.decode(alone(empty(value))) != nil || !s.below(value, path, alone) {
		message := reason(err.Error())
		if message == mustBeString && s.decode(alone("")) != nil {
			message = mustHaveFields // The name of the type is the same for both messages.
		}
		s.problems = append(s.problems, Problem{Type: TypeMalformed, Field: path, Value: value, Message: message})
	}
	return true
}

// empty returns an empty container for a container, and any other value unchanged. If decoding the empty container
// fails, too, the container itself has the wrong type.
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

// reason returns the decoder's message about a value without the names of Go types.
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
