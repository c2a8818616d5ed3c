package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// realTime begins the comment of a line of a test that has to wait for a time, and names what takes so long.
const realTime = "// Real time: "

// TestTestsWaitForStates finds tests that wait for a fixed time, for example to see that nothing happens: they are
// slow, and pass on a busy machine whatever the code does. A test waits for a state instead (an event, a metric, an
// object that went through the same queue), or runs in a bubble of testing/synctest. A wait between the attempts of a
// loop that ends with a state is allowed, and so is one that fails the test. If there is no other way, a comment says
// what takes so long:
//
//	time.Sleep(fenceTime) // Real time: the pause of the processes.
func TestTestsWaitForStates(t *testing.T) {
	for path, source := range tracked(t, "*_test.go") {
		for _, line := range fixedWaits(t, source) {
			t.Errorf("%s:%d: waits for a fixed time (wait for a state, use testing/synctest, or explain with %q)",
				path, line, realTime)
		}
	}
}

// fixedWaits returns the lines of waits for a fixed time.
func fixedWaits(t *testing.T, source []byte) []int {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := splitLines(source)
	var found []int
	var path []ast.Node // From the file to the current node.
	ast.Inspect(tree, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		line := files.Position(call.Pos()).Line
		if waits(call) && !strings.Contains(lines[line-1], realTime) && !allowedWait(path) {
			found = append(found, line)
		}
		return true
	})
	return found
}

// waits reports whether a call waits for a time, or returns a channel for that.
func waits(call *ast.CallExpr) bool {
	return isCall(call, "time", "Sleep", "After", "Tick", "NewTimer")
}

func isCall(n ast.Node, of string, names ...string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, function.Sel.Name) {
		return false
	}
	x, ok := function.X.(*ast.Ident)
	return of == "" || ok && x.Name == of
}

// allowedWait reports whether the wait at the end of the path is in a bubble, the limit of another wait, or between the
// attempts of a loop that ends with a state.
func allowedWait(path []ast.Node) bool {
	function := 0 // The innermost function.
	for i, n := range path {
		if isCall(n, "synctest", "Test") {
			return true
		}
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			function = i
		}
	}
	for _, n := range path[function:] {
		switch n := n.(type) {
		case *ast.ForStmt:
			if endsWithState(n.Cond) || leaves(n.Body) {
				return true
			}
		case *ast.RangeStmt:
			if leaves(n.Body) {
				return true
			}
		case *ast.CommClause:
			if failsIn(n.Body) {
				return true
			}
		case *ast.AssignStmt: // A limit that a select statement uses.
			if name, ok := n.Lhs[0].(*ast.Ident); ok && isLimit(path[function], name.Name) {
				return true
			}
		}
	}
	return false
}

// endsWithState reports whether a condition depends on more than the time.
func endsWithState(condition ast.Expr) bool {
	switch c := condition.(type) {
	case nil:
		return false
	case *ast.BinaryExpr:
		if c.Op == token.LAND || c.Op == token.LOR {
			return endsWithState(c.X) || endsWithState(c.Y)
		}
	}
	timed := false
	ast.Inspect(condition, func(n ast.Node) bool {
		timed = timed || isCall(n, "time", "Now", "Since", "Until")
		return !timed
	})
	return !timed
}

// leaves reports whether the body of a loop ends the loop or its function without failing.
func leaves(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			found = true
		case *ast.BranchStmt:
			found = found || n.Tok == token.BREAK || n.Tok == token.GOTO
		}
		return !found
	})
	return found
}

// failsIn reports whether statements fail the test.
func failsIn(body []ast.Stmt) bool {
	found := false
	for _, statement := range body {
		ast.Inspect(statement, func(n ast.Node) bool {
			if s, ok := n.(*ast.ExprStmt); ok {
				found = found || isCall(s.X, "", "Fatal", "Fatalf", "Error", "Errorf")
			}
			return !found
		})
	}
	return found
}

// isLimit reports whether a channel is received from in select statements only, to fail.
func isLimit(function ast.Node, channel string) bool {
	limit := false
	ast.Inspect(function, func(n ast.Node) bool {
		clause, ok := n.(*ast.CommClause)
		if !ok {
			return true
		}
		if receive, ok := clause.Comm.(*ast.ExprStmt); ok {
			if from, ok := receive.X.(*ast.UnaryExpr); ok {
				if name, ok := from.X.(*ast.Ident); ok && name.Name == channel {
					limit = failsIn(clause.Body)
				}
			}
		}
		return true
	})
	return limit
}

func TestFixedWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want int
	}{
		"a pause":              {`time.Sleep(time.Second); check(t)`, 1},
		"an explained pause":   {"time.Sleep(time.Second) // Real time: the certificate expires.", 0},
		"a bubble":             {`synctest.Test(t, func(t *testing.T) { time.Sleep(time.Hour) })`, 0},
		"a loop to a state":    {`for !reached() { time.Sleep(time.Second) }`, 0},
		"a loop with a return": {`for { if reached() { return }; time.Sleep(time.Second) }`, 0},
		"a loop that always takes as long": {
			`for end := now(); time.Now().Before(end); time.Sleep(time.Second) { if !ok() { t.Fatal() } }`, 1},
		"a number of pauses":   {`for range 5 { send(); time.Sleep(time.Second) }`, 1},
		"a pause in a closure": {`for !reached() { f(func() { time.Sleep(time.Second) }) }`, 1},
		"the limit of a wait":  {`select { case <-done: case <-time.After(time.Minute): t.Fatal() }`, 0},
		"a wait for nothing":   {`select { case <-done: t.Fatal(); case <-time.After(time.Second): }`, 1},
		"a limit of a loop":    {`limit := time.After(1); for { select { case <-a: return; case <-limit: t.Fatal() } }`, 0},
		"a limit that passes":  {`limit := time.After(1); select { case <-a: t.Fatal(); case <-limit: }`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			source := "package p\nfunc TestX(t *testing.T) {\n" + tc.body + "\n}\n"
			if got := fixedWaits(t, []byte(source)); len(got) != tc.want {
				t.Errorf("waits in lines %v, want %d", got, tc.want)
			}
		})
	}
}
