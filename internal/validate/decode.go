package validate

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

// decode reads an object strictly into what into makes. Values that the type cannot hold are reported and taken out of
// the object, so that the rest can be checked nevertheless.
func decode[T any](object map[string]any, into func() T) (T, []Problem) {
	result := into()
	strict, err := unmarshal(object, result)
	if err == nil {
		return result, strictProblems(strict)
	}
	s := search{decode: func(object map[string]any) error {
		_, err := unmarshal(object, into())
		return err
	}}
	s.below(object, "", func(value any) map[string]any {
		alone, _ := value.(map[string]any)
		return alone
	})
	result = into()
	if strict, err = unmarshal(object, result); err != nil {
		return result, append(s.problems, Problem{Type: TypeMalformed, Message: reason(err.Error())})
	}
	return result, append(s.problems, strictProblems(strict)...)
}

func unmarshal(object map[string]any, into any) (strict []error, err error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(raw, into)
}

// search finds the innermost values that a type cannot hold. The decoder stops at the first and names only the types on
// the way to it, so each value is decoded alone, with nothing around it but its place in the object.
type search struct {
	decode   func(object map[string]any) error
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
		s.problems = append(s.problems, Problem{Type: TypeMalformed, Field: path, Value: value, Message: reason(err.Error())})
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

var wrongType = regexp.MustCompile(`cannot unmarshal .* of type (\S+)$`)

// reason is what the decoder says about a value, without the names of Go.
func reason(failure string) string {
	match := wrongType.FindStringSubmatch(failure)
	if match == nil {
		return strings.TrimPrefix(failure, "json: ")
	}
	switch want := match[1]; {
	case want == "string" || strings.HasPrefix(want, "v1"):
		return "must be a text"
	case want == "bool":
		return "must be true or false"
	case strings.HasPrefix(want, "int"):
		return "must be a whole number"
	case strings.HasPrefix(want, "float"):
		return "must be a number"
	case strings.HasPrefix(want, "[]"):
		return "must be a list"
	default:
		return "must have fields"
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
			problems = append(problems, Problem{Type: TypeUnknownField, Field: path, Message: "there is no such field"})
		case quoteErr == nil && what == "duplicate":
			problems = append(problems, Problem{Type: TypeDuplicateField, Field: path, Message: "is given twice"})
		default:
			problems = append(problems, Problem{Type: TypeMalformed, Message: err.Error()})
		}
	}
	return problems
}
