// Command crosscheck type-checks packages for another architecture: what differs between architectures, like types of
// system calls and files with build constraints, fails there and not on the first such machine.
//
// It compiles nothing. Of libraries only declarations are read, so that it takes seconds where a build takes minutes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	arch := flag.String("arch", "arm64", "`GOARCH` to check for")
	tags := flag.String("tags", "", "build `tags`, separated by commas")
	flag.Parse()
	root, err := os.Getwd()
	if err == nil {
		err = check(root, *arch, *tags, flag.Args()...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check returns the errors of packages, of which those below root are checked as a whole.
func check(root, arch, tags string, patterns ...string) error {
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes,
		Dir:        root,
		Env:        append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0"),
		BuildFlags: []string{"-tags=" + tags},
		ParseFile: func(files *token.FileSet, name string, src []byte) (*ast.File, error) {
			return parse(files, name, src, strings.HasPrefix(name, root+string(filepath.Separator)))
		},
	}, patterns...)
	if err != nil {
		return fmt.Errorf("load packages: %w", err)
	}
	var errs []error
	for _, p := range list {
		for _, err := range p.Errors {
			errs = append(errs, fmt.Errorf("%s: %w", arch, err))
		}
	}
	return errors.Join(errs...)
}

// parse leaves out the bodies of functions of libraries, which are most of the work.
func parse(files *token.FileSet, name string, src []byte, whole bool) (*ast.File, error) {
	file, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
	if file != nil && !whole {
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				function.Body = nil
			}
		}
	}
	return file, err
}
