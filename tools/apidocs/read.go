package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// apiPackage is one group and version.
type apiPackage struct {
	group, version string
	doc            string
	types          map[string]*apiType
	kinds          []string // In alphabetical order, without lists.
}

// apiType is a struct, or a named type with its constants.
type apiType struct {
	name   string
	doc    string
	base   string  // Of named types that are no structs.
	fields []field // Of structs.
	values []value // Constants of the type.
	rules  []string
	served bool // Has apiVersion and kind.
}

type field struct {
	name     string // As in JSON; empty for what is inlined from a type of another package.
	doc      string
	typ      string   // As shown, such as []WorkerPool.
	refs     []string // Types of this package that typ mentions.
	required bool
	inline   bool
}

type value struct{ literal, doc string }

func readPackage(dir string) (*apiPackage, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	p := &apiPackage{version: filepath.Base(dir), types: map[string]*apiType{}}
	r := reader{fset: token.NewFileSet(), p: p}
	var files []*ast.File
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
			continue
		}
		file, err := parser.ParseFile(r.fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		if file.Doc != nil && name == "doc.go" {
			p.doc, _ = text(file.Doc)
		}
	}
	// Types first, so that fields and constants find them.
	for _, visit := range []func(*ast.GenDecl) error{r.names, r.typeSpecs, r.constants} {
		for _, file := range files {
			for _, decl := range file.Decls {
				if general, ok := decl.(*ast.GenDecl); ok {
					if err := visit(general); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	if p.group == "" {
		return nil, fmt.Errorf("no constant GroupName")
	}
	for name, t := range p.types {
		if t.served && !strings.HasSuffix(name, "List") {
			p.kinds = append(p.kinds, name)
		}
	}
	slices.Sort(p.kinds)
	return p, nil
}

type reader struct {
	fset *token.FileSet
	p    *apiPackage
}

func (r reader) names(decl *ast.GenDecl) error {
	for _, spec := range decl.Specs {
		if t, ok := spec.(*ast.TypeSpec); ok && t.Name.IsExported() {
			r.p.types[t.Name.Name] = &apiType{name: t.Name.Name}
		}
	}
	return nil
}

func (r reader) typeSpecs(decl *ast.GenDecl) error {
	for _, spec := range decl.Specs {
		s, ok := spec.(*ast.TypeSpec)
		if !ok || !s.Name.IsExported() {
			continue
		}
		t := r.p.types[s.Name.Name]
		comment := s.Doc
		if comment == nil {
			comment = decl.Doc
		}
		var markers []string
		t.doc, markers = text(comment)
		t.rules = rules(markers)
		structure, ok := s.Type.(*ast.StructType)
		if !ok {
			t.base = r.show(s.Type)
			continue
		}
		for _, f := range structure.Fields.List {
			t.served = t.served || r.show(f.Type) == "metav1.TypeMeta"
			read, err := r.field(f)
			if err != nil {
				return fmt.Errorf("type %s: %w", t.name, err)
			}
			if read != nil {
				t.fields = append(t.fields, *read)
			}
		}
	}
	return nil
}

// field returns nil for what is not part of the JSON.
func (r reader) field(f *ast.Field) (*field, error) {
	if f.Tag == nil {
		return nil, nil
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return nil, err
	}
	name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	typ := r.show(f.Type)
	switch {
	case name == "-" || typ == "metav1.TypeMeta":
		return nil, nil
	case name == "" && options == "inline":
		return &field{inline: true, typ: typ, refs: r.refs(f.Type)}, nil
	case name == "":
		return nil, fmt.Errorf("field %v has no JSON name", f.Names)
	}
	doc, markers := text(f.Doc)
	if f.Comment != nil {
		trailing, _ := text(f.Comment)
		doc = strings.TrimSpace(doc + " " + trailing)
	}
	for _, rule := range rules(markers) {
		if rule != "is immutable" || !strings.Contains(strings.ToLower(doc), "immutable") {
			doc += " Rule: " + rule + "."
		}
	}
	optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") ||
		slices.Contains(markers, "+optional")
	return &field{name: name, doc: doc, typ: typ, refs: r.refs(f.Type), required: !optional}, nil
}

func (r reader) constants(decl *ast.GenDecl) error {
	if decl.Tok != token.CONST {
		return nil
	}
	for _, spec := range decl.Specs {
		s, ok := spec.(*ast.ValueSpec)
		if !ok || len(s.Values) != 1 {
			continue
		}
		literal, ok := s.Values[0].(*ast.BasicLit)
		if !ok {
			continue
		}
		if s.Names[0].Name == "GroupName" {
			group, err := strconv.Unquote(literal.Value)
			if err != nil {
				return err
			}
			r.p.group = group
		}
		name, ok := s.Type.(*ast.Ident)
		if !ok || r.p.types[name.Name] == nil {
			continue
		}
		doc, _ := text(s.Doc)
		if s.Comment != nil {
			trailing, _ := text(s.Comment)
			doc = strings.TrimSpace(doc + " " + trailing)
		}
		t := r.p.types[name.Name]
		t.values = append(t.values, value{literal: literal.Value, doc: strings.TrimPrefix(doc, s.Names[0].Name+" ")})
	}
	return nil
}

// show prints a type as the reader of a manifest sees it: pointers make no difference.
func (r reader) show(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return r.show(e.X)
	case *ast.ArrayType:
		return "[]" + r.show(e.Elt)
	case *ast.MapType:
		return "map[" + r.show(e.Key) + "]" + r.show(e.Value)
	}
	var out strings.Builder
	if err := printer.Fprint(&out, r.fset, expr); err != nil {
		return err.Error()
	}
	return out.String()
}

func (r reader) refs(expr ast.Expr) []string {
	var refs []string
	ast.Inspect(expr, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.SelectorExpr:
			return false // Of another package.
		case *ast.Ident:
			if r.p.types[e.Name] != nil {
				refs = append(refs, e.Name)
			}
		}
		return true
	})
	return refs
}

// text separates the prose of a comment from its markers.
func text(group *ast.CommentGroup) (string, []string) {
	if group == nil {
		return "", nil
	}
	var prose, markers []string
	for line := range strings.Lines(group.Text()) {
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "+") {
			markers = append(markers, trimmed)
			continue
		}
		prose = append(prose, strings.TrimRight(line, "\n"))
	}
	return strings.TrimSpace(strings.Join(prose, "\n")), markers
}

// rules are the messages of the CEL rules among markers.
func rules(markers []string) []string {
	var messages []string
	for _, marker := range markers {
		if _, rest, ok := strings.Cut(marker, "XValidation:"); ok {
			if _, message, ok := strings.Cut(rest, `message="`); ok {
				message, _, _ = strings.Cut(message, `"`)
				messages = append(messages, message)
			}
		}
	}
	return messages
}
