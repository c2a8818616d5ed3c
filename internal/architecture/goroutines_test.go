package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// unwatched are packages that start goroutines, and whose tests do not look for those that are left.
var unwatched = map[string]string{
	"internal/bench": "an API server runs in the process of its tests, and starts goroutines at any time",
}

// mains are the functions that find goroutines that are left, as a TestMain calls them. Other modules cannot import
// leaks, and use its library.
var mains = []string{"leaks.Main(m)", "sandboxtest.Main(m)", "goleak.VerifyTestMain(m)"}

// TestGoroutinesAreWatched checks that the tests of packages that start goroutines find those that are left.
func TestGoroutinesAreWatched(t *testing.T) {
	for _, p := range matching(t, "cmd/... extension/... internal/... local/...") {
		p = below(p)
		if !startsGoroutines(t, p) {
			if _, listed := unwatched[p]; listed {
				t.Errorf("%s starts no goroutines, but is listed", p)
			}
			continue
		}
		_, listed := unwatched[p]
		if watched := watchesGoroutines(t, p) || isForTests(t, p) && usersWatchGoroutines(t, p); watched == listed {
			t.Errorf("%s: its tests find goroutines that are left: %v, exempt: %v; call leaks.Main in TestMain",
				p, watched, listed)
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

// isForTests reports whether a package is part of the tests of others.
func isForTests(t *testing.T, p string) bool {
	t.Helper()
	return slices.Contains(repository(t).imports[module+p], "testing")
}

// usersWatchGoroutines reports whether tests that use a package find its goroutines.
func usersWatchGoroutines(t *testing.T, p string) bool {
	t.Helper()
	for _, user := range matching(t, "cmd/... internal/... local/...") {
		user = below(user)
		for _, file := range filesOf(t, user, true) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(content, []byte(`"`+module+p+`"`)) && watchesGoroutines(t, user) {
				return true
			}
		}
	}
	return false
}

// watchesGoroutines reports whether a test of the package calls one of mains.
func watchesGoroutines(t *testing.T, p string) bool {
	t.Helper()
	for _, file := range filesOf(t, p, true) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(mains, func(call string) bool { return bytes.Contains(content, []byte(call)) }) {
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
