package codec

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// looseOptions read on where readOptions stop for reasons that have no place in a document.
var looseOptions = jsonv2.JoinOptions(
	jsonv2.MatchCaseInsensitiveNames(false), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
)

// plainName matches names of fields, and of few annotations.
var plainName = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// longestValue is up to how many bytes of a value are quoted.
const longestValue = 100

// located adds to the library's error for a document which field has the value that its type does not take, and the value. The
// library names a Go type at best.
func located(err error, data []byte, object runtime.Object) error {
	var mistake *jsonv2.SemanticError
	if !errors.As(jsonv2.Unmarshal(data, object, looseOptions), &mistake) || mistake.JSONPointer == "" {
		return err
	}
	path, value := follow(data, mistake.JSONPointer)
	if path == nil {
		return err
	}
	if len(value) > longestValue {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s: Invalid value: %s: %w", path, value, err)
}

// follow returns the path to a value as users write it, and the value. Nil if there is no such value.
func follow(data []byte, pointer jsontext.Pointer) (path *field.Path, value jsontext.Value) {
	value = data
	for token := range pointer.Tokens() {
		switch value.Kind() {
		case '[':
			var items []jsontext.Value
			i, err := strconv.Atoi(token)
			if jsonv2.Unmarshal(value, &items, looseOptions) != nil || err != nil || i >= len(items) {
				return nil, nil
			}
			path, value = path.Index(i), items[i]
		case '{':
			var members map[string]jsontext.Value
			if jsonv2.Unmarshal(value, &members, looseOptions) != nil || members[token] == nil {
				return nil, nil
			}
			value = members[token]
			if plainName.MatchString(token) {
				path = path.Child(token)
			} else {
				path = path.Key(token)
			}
		default:
			return nil, nil
		}
	}
	return path, value
}
