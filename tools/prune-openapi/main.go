// Command prune-openapi removes from a file made by openapi-gen the definitions that no kept package refers to.
//
// openapi-gen writes whole packages. Of k8s.io/api our types use a small part, and the rest would be most of the
// file. Usage: prune-openapi FILE KEEP..., where KEEP are prefixes of import paths whose definitions all stay.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"log"
	"os"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: prune-openapi FILE KEEP...")
	}
	source, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	pruned, err := prune(source, os.Args[2:])
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], pruned, 0o644); err != nil {
		log.Fatal(err)
	}
}

func prune(source []byte, keep []string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse generated file: %w", err)
	}
	paths := map[string]string{} // By local name of the import.
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		paths[spec.Name.Name] = path
	}

	var table *ast.CompositeLit
	builders := map[string]*ast.FuncDecl{}
	for _, decl := range file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if function.Name.Name == "GetOpenAPIDefinitions" {
			table = function.Body.List[0].(*ast.ReturnStmt).Results[0].(*ast.CompositeLit)
			continue
		}
		builders[function.Name.Name] = function
	}
	if table == nil {
		return nil, fmt.Errorf("no function GetOpenAPIDefinitions")
	}

	builderOf := map[string]string{} // By model expression, such as v1.Volume.
	var queue []string
	for _, element := range table.Elts {
		entry := element.(*ast.KeyValueExpr)
		model := modelName(entry.Key)
		builderOf[model] = entry.Value.(*ast.CallExpr).Fun.(*ast.Ident).Name
		path := paths[strings.SplitN(model, ".", 2)[0]]
		for _, prefix := range keep {
			if strings.HasPrefix(path, prefix) {
				queue = append(queue, model)
				break
			}
		}
	}
	reached := map[string]bool{}
	for len(queue) > 0 {
		model := queue[0]
		queue = queue[1:]
		if reached[model] {
			continue
		}
		reached[model] = true
		if builder := builders[builderOf[model]]; builder != nil {
			ast.Inspect(builder, func(node ast.Node) bool {
				if expr, ok := node.(ast.Expr); ok {
					if other := modelName(expr); other != "" {
						queue = append(queue, other)
					}
				}
				return true
			})
		}
	}

	var cut [][2]int // Byte ranges to leave out.
	used := map[string]bool{}
	for _, element := range table.Elts {
		entry := element.(*ast.KeyValueExpr)
		model := modelName(entry.Key)
		if reached[model] {
			used[strings.SplitN(model, ".", 2)[0]] = true
			continue
		}
		end := fset.Position(entry.End()).Offset
		for source[end-1] != '\n' {
			end++
		}
		cut = append(cut, [2]int{fset.Position(entry.Pos()).Offset, end})
		builder := builders[builderOf[model]]
		cut = append(cut, [2]int{fset.Position(builder.Pos()).Offset, fset.Position(builder.End()).Offset})
		delete(builders, builderOf[model])
	}
	// What is in no table is made from a type that is not exported.
	listed := map[string]bool{}
	for _, builder := range builderOf {
		listed[builder] = true
	}
	for name, builder := range builders {
		if !listed[name] {
			cut = append(cut, [2]int{fset.Position(builder.Pos()).Offset, fset.Position(builder.End()).Offset})
			delete(builders, name)
		}
	}
	for _, builder := range builders {
		ast.Inspect(builder, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				if name, ok := selector.X.(*ast.Ident); ok {
					used[name.Name] = true
				}
			}
			return true
		})
	}
	for _, spec := range file.Imports {
		if !used[spec.Name.Name] && spec.Name.Name != "common" && spec.Name.Name != "spec" {
			cut = append(cut, [2]int{fset.Position(spec.Pos()).Offset, fset.Position(spec.End()).Offset})
		}
	}
	var out bytes.Buffer
	skip := make([]bool, len(source))
	for _, c := range cut {
		for i := c[0]; i < c[1]; i++ {
			skip[i] = true
		}
	}
	for i, b := range source {
		if !skip[i] {
			out.WriteByte(b)
		}
	}
	return format.Source(out.Bytes())
}

// modelName returns v1.Volume for v1.Volume{}.OpenAPIModelName(), and nothing for other expressions.
func modelName(expr ast.Expr) string {
	call, ok := expr.(*ast.CallExpr)
	if !ok {
		return ""
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "OpenAPIModelName" {
		return ""
	}
	var out bytes.Buffer
	if literal, ok := selector.X.(*ast.CompositeLit); ok {
		if err := printer.Fprint(&out, token.NewFileSet(), literal.Type); err != nil {
			return ""
		}
	}
	return out.String()
}
