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

// maxMalformed bounds the search for values that a type cannot hold; a manifest with more of them is of another kind.
const maxMalformed = 25

// decode reads an object strictly into what into makes. Values that the type cannot hold are reported and left out, so
// that the rest can be checked nevertheless.
func decode[T any](object map[string]any, into func() T) (T, []Problem) {
	var problems []Problem
	for {
		result := into()
		strict, err := unmarshal(object, result)
		if err == nil {
			return result, append(problems, strictProblems(strict)...)
		}
		c := culprit{failure: err.Error(), decodes: func() error {
			_, err := unmarshal(object, into())
			return err
		}}
		if len(problems) == maxMalformed || !c.find(object, "") {
			return result, append(problems, Problem{Type: TypeMalformed, Message: reason(err.Error())})
		}
		problems = append(problems, Problem{Type: TypeMalformed, Field: c.path, Value: c.value, Message: reason(err.Error())})
	}
}

func unmarshal(object map[string]any, into any) (strict []error, err error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(raw, into)
}

// culprit is the innermost value without which a manifest fails no longer, or fails for another reason. The decoder
// names only the types on the way to it.
type culprit struct {
	failure string
	decodes func() error

	path  string
	value any
}

// find looks below a value, and leaves the manifest without the culprit.
func (c *culprit) find(in any, path string) bool {
	switch in := in.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(in)) {
			value, at := in[key], childPath(path, key)
			if c.find(value, at) {
				return true
			}
			delete(in, key)
			if c.is(value, at) {
				return true
			}
			in[key] = value
		}
	case []any:
		for i, value := range in {
			at := fmt.Sprintf("%s[%d]", path, i)
			if c.find(value, at) {
				return true
			}
			in[i] = nil
			if c.is(value, at) {
				return true
			}
			in[i] = value
		}
	}
	return false
}

func (c *culprit) is(value any, path string) bool {
	if err := c.decodes(); err != nil && err.Error() == c.failure {
		return false
	}
	c.path, c.value = path, value
	return true
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
