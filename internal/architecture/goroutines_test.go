package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"
)

// unwatched are packages that start goroutines, and whose tests do not look for those that are left.
var unwatched = map[string]string{
	"cmd/echo":                             "it has no tests",
	"internal/apiserver/admission":         "its goroutine ends with the server",
	"internal/bench":                       "it measures whole servers",
	"internal/etcdmember/command":          "its tests run programs",
	"internal/nodeagent/units/conformance": "it is a test itself",
	"local/clouddaemon/cloudtest":          "it is for tests of others",
	"local/clouddaemon/driver/container":   "its tests run in namespaces of their own, as programs",
	"local/clouddaemon/fabric/linux":       "its tests run in namespaces of their own, as programs",
	"local/landscape":                      "it is the program of one command",
	"local/machineinit":                    "it is process 1, which never ends",
	"local/machineinit/unit":               "it is process 1, which never ends",
}

// TestGoroutinesAreWatched checks that the tests of packages that start goroutines find those that are left.
func TestGoroutinesAreWatched(t *testing.T) {
	for _, p := range matching(t, "cmd/... internal/... local/...") {
		p = below(p)
		if !startsGoroutines(t, p) {
			if _, listed := unwatched[p]; listed {
				t.Errorf("%s starts no goroutines, but is listed", p)
			}
			continue
		}
		_, listed := unwatched[p]
		if watched := watchesGoroutines(t, p); watched == listed {
			t.Errorf("%s: its tests find goroutines that are left: %v, exempt: %v; call leaks.Main in TestMain", p, watched, listed)
		}
	}
}

// startsGoroutines reports whether the sources of a package have a go statement, or call a method Go with a function.
func startsGoroutines(t *testing.T, p string) bool {
	t.Helper()
	found := false
	for _, file := range filesOf(t, p, false) {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = true
			case *ast.CallExpr:
				method, ok := n.Fun.(*ast.SelectorExpr)
				found = found || ok && method.Sel.Name == "Go" && len(n.Args) == 1
			}
			return !found
		})
	}
	return found
}

// watchesGoroutines reports whether a test of the package calls leaks.Main.
func watchesGoroutines(t *testing.T, p string) bool {
	t.Helper()
	for _, file := range filesOf(t, p, true) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte("leaks.Main(m)")) {
			return true
		}
	}
	return false
}

// filesOf lists the Go files of a package: its tests, or all others.
func filesOf(t *testing.T, p string, tests bool) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(root, p, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range all {
		if isTest, _ := filepath.Match("*_test.go", filepath.Base(file)); isTest == tests {
			out = append(out, file)
		}
	}
	return out
}
