package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Object is one manifest. It must not be used concurrently.
type Object struct {
	File     string
	Document int // Number of its document in the file, from 1.
	// APIVersion, Kind, Namespace and Name are empty if absent or not a string.
	APIVersion, Kind, Namespace, Name string
	// Problems are the parser's: of type Syntax, or duplicate fields.
	Problems []Problem

	raw    []byte // JSON; nil if the manifest could not be parsed.
	source *source
	at     string // Path in the source.
}

// FromFields returns an object with these fields, without a file.
func FromFields(fields map[string]any) (*Object, error) {
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return newObject(&source{}, raw, typeMeta{}, ""), nil
}

// Parsed reports whether the object could be parsed; if not, Problems has the reason.
func (o *Object) Parsed() bool { return o.raw != nil }

// Fields returns all fields; nil if the object could not be parsed.
func (o *Object) Fields() map[string]any {
	var fields map[string]any
	if o.raw != nil && json.Unmarshal(o.raw, &fields) != nil {
		return nil // It has been parsed before, so this does not happen.
	}
	if fields != nil && fields["kind"] == nil && o.Kind != "" { // An item of a List of its kind.
		fields["kind"], fields["apiVersion"] = o.Kind, o.APIVersion
	}
	return fields
}

// Line returns the line of a field, or of its nearest parent with a known line; for "", the first line of the object; 0
// if nothing is known.
func (o *Object) Line(field string) int {
	if field == "" && o.at == "" {
		return o.source.line
	}
	if o.source.lines == nil {
		o.source.parse()
	}
	return o.source.lines.of(join(o.at, field))
}

// join concatenates two paths.
func join(above, below string) string {
	if above == "" || below == "" || strings.HasPrefix(below, "[") {
		return above + below
	}
	return above + "." + below
}

// objects are the objects of one piece.
type objects []*Object

func each[T any](objects objects, visit func(*Object) T) []T {
	results := make([]T, len(objects))
	for i, o := range objects {
		results[i] = visit(o)
	}
	return results
}

// broken reports whether any of the objects could not be parsed.
func (objects objects) broken() bool {
	for _, o := range objects {
		if o.raw == nil {
			return true
		}
	}
	return false
}

// source is a text with the lines of its fields.
type source struct {
	text   []byte
	line   int
	dashed bool
	lines  lines // Nil until it is needed.
	twice  []Problem
}

// objects parses a piece.
func (p *piece) objects() objects {
	s := &source{text: p.text, line: p.line, dashed: p.dashed}
	object := func(problems ...Problem) *Object {
		return &Object{File: p.file, Document: p.document, Problems: problems, source: s}
	}
	raw := p.text
	if !p.json {
		var err error
		if raw, err = s.toJSON(); err != nil {
			return objects{object(s.syntax(err))}
		}
	}
	if raw = bytes.TrimSpace(raw); string(raw) == "null" && !p.item {
		return nil
	}
	found := s.expand(raw, p.list, "")
	for _, o := range found {
		o.File, o.Document = p.file, p.document
		for _, problem := range s.twice {
			if field, ok := below(problem.Field, o.at); ok {
				problem.Field = field
				o.Problems = append(o.Problems, problem)
			}
		}
	}
	return found
}

// below returns path relative to above; false if it is not below it.
func below(path, above string) (string, bool) {
	if above == "" {
		return path, true
	}
	return strings.CutPrefix(path, above+".")
}

// toJSON converts YAML as kubectl does, so that yes, 0o17 and so on have the same meaning. The last of duplicate fields
// is used; s.twice then lists them.
func (s *source) toJSON() ([]byte, error) {
	raw, err := yaml.YAMLToJSONStrict(s.text)
	if err != nil || !s.endsWithFile() {
		if err := s.parse(); err != nil {
			return nil, err
		}
		if raw, err = yaml.YAMLToJSON(s.text); err != nil {
			return nil, err
		}
	}
	if s.dashed {
		raw = bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("[")), []byte("]"))
	}
	return raw, nil
}

// endsWithFile reports whether a text that can be parsed is certainly a single value: the parser ignores text after the
// first value, such as lines that are indented less than the first one. A block that begins in the first column
// contains all following lines.
func (s *source) endsWithFile() bool {
	return !bytes.ContainsRune([]byte(" \t{[\"'"), rune(s.text[0])) && !bytes.Contains(s.text, []byte("\n..."))
}

// parse parses the text completely and sets lines and twice.
func (s *source) parse() error {
	s.lines, s.twice = lines{"": s.line}, nil
	var root, rest yamlnode.Node
	decoder := yamlnode.NewDecoder(bytes.NewReader(s.text))
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil // Only comments.
	} else if err != nil {
		return err
	}
	if err := decoder.Decode(&rest); err == nil {
		return errors.New("what follows belongs to no document; is the indentation right?")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	node := &root
	if len(node.Content) > 0 {
		node = node.Content[0]
	}
	if s.dashed && node.Kind == yamlnode.SequenceNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	s.twice = s.lines.collect(node, "", s.line-1)
	return nil
}

// expand returns the object in JSON or, for a List, its items; items that are Lists are expanded, too.
func (s *source) expand(raw []byte, kind typeMeta, at string) objects {
	o := newObject(s, raw, kind, at)
	if o.raw == nil {
		return objects{o}
	}
	of, isList := typeMeta{o.APIVersion, o.Kind}.item()
	if !isList {
		return objects{o}
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &list)
	switch {
	case list.Items == nil && of.Kind != "": // A kind whose name happens to end in List.
		return objects{o}
	case err != nil:
		o.Problems = append(o.Problems, Problem{Type: TypeMalformed, Field: "items", Message: "must be a list"})
		return objects{o}
	}
	var found objects
	for i, item := range list.Items {
		found = append(found, s.expand(item, of, join(at, fmt.Sprintf("items[%d]", i)))...)
	}
	return found
}

// newObject reads the identity of a manifest. kind is used if the manifest has no kind.
func newObject(s *source, raw []byte, kind typeMeta, at string) *Object {
	o := &Object{raw: raw, source: s, at: at}
	if len(raw) == 0 || raw[0] != '{' {
		o.raw = nil
		o.Problems = []Problem{{
			Type: TypeMalformed, Value: shown(raw), Message: "must have fields, such as apiVersion and kind",
		}}
		return o
	}
	var head struct {
		typeMeta `json:",inline"`
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	// Decode reports values of the wrong type. Fields before them are set.
	_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &head)
	if head.Kind == "" {
		head.typeMeta = kind
	}
	o.APIVersion, o.Kind, o.Namespace, o.Name = head.APIVersion, head.Kind, head.Metadata.Namespace, head.Metadata.Name
	return o
}

// shown returns a value for use in a problem.
func shown(raw []byte) any {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return string(raw)
	}
	return value
}
