package codec

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// looseOptions accept the documents that the library accepts and readOptions reject.
var looseOptions = jsonv2.JoinOptions(
	jsonv2.MatchCaseInsensitiveNames(false), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	jsonv1.ParseBytesWithLooseRFC4648(true),
)

// located adds the path of the field with a value of the wrong type to the library's error, which names a Go type at
// best. The value is not added: errors are logged and audited, and documents may contain secrets.
func located(err error, data []byte, object runtime.Object) error {
	var mistake *jsonv2.SemanticError
	if !errors.As(jsonv2.Unmarshal(data, object, looseOptions), &mistake) || mistake.JSONPointer == "" {
		return err
	}
	return fmt.Errorf("%s: %w", pathOf(mistake.JSONPointer), err)
}

// plainName matches names of fields, but hardly any annotation key.
var plainName = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// pathOf converts a JSON pointer to a field path.
func pathOf(pointer jsontext.Pointer) *field.Path {
	var path *field.Path
	for token := range pointer.Tokens() {
		if i, err := strconv.Atoi(token); err == nil && path != nil {
			path = path.Index(i)
		} else if plainName.MatchString(token) || path == nil {
			path = path.Child(token)
		} else {
			path = path.Key(token)
		}
	}
	return path
}
