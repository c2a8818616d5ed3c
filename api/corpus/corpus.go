// Package corpus reads the cases of testdata/corpus: objects, and their expected defaults, errors and warnings. The
// pure functions are tested with them, and so can be a server: a Case carries complete manifests.
//
// Each directory holds the cases of one kind, and in base/ the objects that they vary. A case is a file:
//
//	name: a pool name longer than 15 characters is refused   # A sentence.
//	base: workers                    # base/workers.yaml, which is valid. Default: valid.
//	given: {path: value}             # Changes to the base, for the stored and the new object.
//	set: {path: value}               # Changes to the new object; null removes a field.
//	operation: update                # create (default), update of the base, or status.
//	now: "2026-01-01T00:00:00Z"      # For rules that depend on time.
//	features: {InPlaceNodeUpdates: false}
//	want:
//	  errors: [TooLong spec.provider.workers[0].name]        # All of them, in any order; none when left out.
//	  defaults: {path: value}        # Fields after defaulting; null for absent.
//	  warnings: [is deprecated]      # Parts of the warnings that must be there; none otherwise.
//	stored: refused                  # The stored object is from before a rule, so that no server can be given it.
//	server: why a server answers differently, if it does
//
// Paths are written as in errors: spec.provider.workers[0].name, metadata.annotations[gardener.cloud/operation].
package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Case is a request and the expected answer.
type Case struct {
	File string // Below the directory of the corpus.
	Name string
	// Object is the manifest of the request, Old the stored object of an update.
	Object, Old map[string]any
	Operation   Operation
	Now         time.Time
	Features    map[string]bool

	Errors   []Error
	Defaults map[string]any
	Warnings []string
	// StoredRefused is true if a server would not store the old object today.
	StoredRefused bool
	// Server is the reason why a server answers differently from the pure functions; empty if it does not.
	Server string
}

const storedRefused = "refused"

// Operation is the kind of a request.
type Operation string

const (
	Create       Operation = "create"
	Update       Operation = "update"
	StatusUpdate Operation = "status"
)

// Error is an expected error.
type Error struct {
	Type  field.ErrorType
	Field string
}

// String returns the error as it is written in cases.
func (e Error) String() string { return shortTypes[e.Type] + " " + e.Field }

// NewError returns an error in the form of a case.
func NewError(e *field.Error) Error { return Error{Type: e.Type, Field: e.Field} }

var shortTypes = map[field.ErrorType]string{
	field.ErrorTypeRequired: "Required", field.ErrorTypeInvalid: "Invalid", field.ErrorTypeNotSupported: "NotSupported",
	field.ErrorTypeDuplicate: "Duplicate", field.ErrorTypeForbidden: "Forbidden", field.ErrorTypeTooLong: "TooLong",
	field.ErrorTypeNotFound: "NotFound", field.ErrorTypeTooMany: "TooMany", field.ErrorTypeInternal: "Internal",
	field.ErrorTypeTypeInvalid: "TypeInvalid",
}

func parseError(text string) (Error, error) {
	short, at, _ := strings.Cut(text, " ")
	for long, s := range shortTypes {
		if s == short && at != "" {
			return Error{Type: long, Field: at}, nil
		}
	}
	return Error{}, fmt.Errorf("wanted error %q must be a type and a field", text)
}

// file is a case as it is written.
type file struct {
	Name      string          `json:"name"`
	Base      string          `json:"base"`
	Given     map[string]any  `json:"given"`
	Set       map[string]any  `json:"set"`
	Operation Operation       `json:"operation"`
	Now       time.Time       `json:"now"`
	Features  map[string]bool `json:"features"`
	Want      struct {
		Errors   []string       `json:"errors"`
		Defaults map[string]any `json:"defaults"`
		Warnings []string       `json:"warnings"`
	} `json:"want"`
	Stored string `json:"stored"`
	Server string `json:"server"`
}

// Load reads all cases, by file name.
func Load(fsys fs.FS) ([]Case, error) {
	paths, err := fs.Glob(fsys, "*/*.yaml")
	if err != nil {
		return nil, err
	}
	var cases []Case
	names := map[string]string{}
	for _, name := range paths {
		c, err := load(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", name, err)
		}
		key := path.Dir(name) + " " + c.Name
		if other, ok := names[key]; ok {
			return nil, fmt.Errorf("cases %s and %s have the same name", other, name)
		}
		names[key] = name
		cases = append(cases, c)
	}
	return cases, nil
}

func load(fsys fs.FS, name string) (Case, error) {
	raw, err := fs.ReadFile(fsys, name)
	if err != nil {
		return Case{}, err
	}
	f := file{Base: "valid", Operation: Create}
	if err := yaml.UnmarshalStrict(raw, &f); err != nil {
		return Case{}, err
	}
	if f.Name == "" {
		return Case{}, errors.New("has no name")
	}
	c := Case{
		File: name, Name: f.Name, Operation: f.Operation, Now: f.Now, Features: f.Features,
		Defaults: f.Want.Defaults, Warnings: f.Want.Warnings, Server: f.Server,
		StoredRefused: f.Stored == storedRefused,
	}
	if f.Stored != "" && !c.StoredRefused {
		return Case{}, fmt.Errorf("stored is %q, can only be %q", f.Stored, storedRefused)
	}
	for _, text := range f.Want.Errors {
		e, err := parseError(text)
		if err != nil {
			return Case{}, err
		}
		c.Errors = append(c.Errors, e)
	}
	base := path.Join(path.Dir(name), "base", f.Base+".yaml")
	if c.Object, err = object(fsys, base, f.Given, f.Set); err != nil {
		return Case{}, err
	}
	if f.Operation != Create {
		c.Old, err = object(fsys, base, f.Given)
	}
	return c, err
}

// object reads a base and changes it.
func object(fsys fs.FS, base string, changes ...map[string]any) (map[string]any, error) {
	raw, err := fs.ReadFile(fsys, base)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("base %s: %w", base, err)
	}
	for _, change := range changes {
		for _, at := range slices.Sorted(maps.Keys(change)) {
			if err := Set(object, at, change[at]); err != nil {
				return nil, err
			}
		}
	}
	return object, nil
}

// splitPath splits a.b[0].c[x/y] into its keys.
func splitPath(at string) []string {
	var keys []string
	for at != "" {
		switch {
		case at[0] == '.':
			at = at[1:]
		case at[0] == '[':
			key, rest, _ := strings.Cut(at[1:], "]")
			keys, at = append(keys, key), rest
		default:
			end := strings.IndexAny(at, ".[")
			if end < 0 {
				end = len(at)
			}
			keys, at = append(keys, at[:end]), at[end:]
		}
	}
	return keys
}

// Set changes a field of a manifest, making the maps and the list entry on the way; nil removes it.
func Set(object map[string]any, at string, value any) error {
	_, err := set(object, splitPath(at), value)
	if err != nil {
		return fmt.Errorf("set %s: %w", at, err)
	}
	return nil
}

func set(in any, keys []string, value any) (any, error) {
	if len(keys) == 0 {
		return clone(value), nil
	}
	if list, ok := in.([]any); ok || in == nil && isIndex(keys[0]) {
		i, err := strconv.Atoi(keys[0])
		if err != nil || i > len(list) {
			return nil, fmt.Errorf("no entry %s in a list of %d", keys[0], len(list))
		}
		if value == nil && len(keys) == 1 {
			return slices.Delete(list, i, i+1), nil
		}
		if i == len(list) {
			list = append(list, nil)
		}
		list[i], err = set(list[i], keys[1:], value)
		return list, err
	}
	object, ok := in.(map[string]any)
	if !ok {
		if in != nil {
			return nil, fmt.Errorf("%s is no field of %T", keys[0], in)
		}
		object = map[string]any{}
	}
	if value == nil && len(keys) == 1 {
		delete(object, keys[0])
		return object, nil
	}
	changed, err := set(object[keys[0]], keys[1:], value)
	if err != nil {
		return nil, err
	}
	object[keys[0]] = changed
	return object, nil
}

func isIndex(key string) bool {
	_, err := strconv.Atoi(key)
	return err == nil
}

// clone keeps objects from sharing what a case sets in both.
func clone(value any) any {
	raw, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var copied any
	if err := json.Unmarshal(raw, &copied); err != nil {
		return value
	}
	return copied
}

// Get returns a field of a manifest, nil if there is none.
func Get(object map[string]any, at string) any {
	var in any = object
	for _, key := range splitPath(at) {
		switch v := in.(type) {
		case map[string]any:
			in = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return nil
			}
			in = v[i]
		default:
			return nil
		}
	}
	return in
}
