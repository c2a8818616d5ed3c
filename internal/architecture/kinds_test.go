package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// otherKinds are extension kinds whose names also mean something else: a kind of another API group, or, for the last
// one, no kind of the contract, so that it has no constant.
var otherKinds = []string{"BackupBucket", "BackupEntry", "Bastion", "SelfHostedShootExposure"}

// TestExtensionKindsAreConstants finds extension kinds in literals outside the API, except where a constant of another
// meaning is defined. The names exist once, so that the uses of a kind can be found.
func TestExtensionKindsAreConstants(t *testing.T) {
	kinds := slices.DeleteFunc(corev1beta1.ExtensionKinds(), func(kind string) bool {
		return slices.Contains(otherKinds, kind)
	})
	for path, source := range tracked(t, "*.go", ":!api", ":!*_test.go") {
		for line, kind := range literalsOf(t, source, kinds) {
			t.Errorf("%s:%d: %q (write extensionsv1alpha1.%sKind)", path, line, kind, kind)
		}
	}
}

// literalsOf returns literals with one of the values by line, except those of constants.
func literalsOf(t *testing.T, source []byte, values []string) map[int]string {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.BasicLit:
			value, err := strconv.Unquote(n.Value)
			if n.Kind == token.STRING && err == nil && slices.Contains(values, value) {
				found[files.Position(n.Pos()).Line] = value
			}
		}
		return true
	})
	return found
}

func TestLiteralsOf(t *testing.T) {
	for source, want := range map[string]int{
		`var a = b.Kind == "Worker"`:              1,
		`var a = T{Kind: "Worker", Name: "x"}`:    1,
		`const waitWorker kind = "Worker"`:        0,
		`var a = "Workers of a Shoot: Worker"`:    0,
		"var a = `Worker`":                        1,
		`func f() { log("Network", x.Worker()) }`: 0,
	} {
		if got := len(literalsOf(t, []byte("package p\n"+source), []string{"Worker"})); got != want {
			t.Errorf("%s: %d literals, want %d", source, got, want)
		}
	}
}
