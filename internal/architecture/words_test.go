package architecture

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// phrases that need a second reading, in lower case, and what the field says instead.
var phrases = []struct{ phrase, instead string }{
	{"led by server name", "routed by SNI"},
	{"leads the host name", "routes the host names"},
	{"who is in the way", "still in use by"},
	{"more shoots are in the way", "still in use by"},
	{"nor any other", "none are supported"},
	{"nor for any other", "none are supported"},
	{"stopped to send", "stopped sending"},
	{"stopped to refer", "stopped referring"},
	{"in order and in moderation", "sorted, at most N"},
	{"gets at nothing", "exposes no other"},
	{"says nothing of", "does not mention"},
	{"how the landscape is", "landscape status"},
	{"how the landscape of", "landscape status"},
	{"after the end was asked for", "on shutdown"},
	{"to tell the instant", "to compute the exact time"},
	{"no extension is registered for", "no extension registered for X (available: Y)"},
	{"the parent does not offer", "not offered by the parent (available: X)"},
	{"the server tells", "reports"},
	{"is told with", "is reported with"},
	{"is told in", "is reported in"},
	{"who is told", "receivers"},
	{"tells a human", "human-readable description of"},
	{"how long connections may go on", "connection drain period on shutdown"},
	{"let go of", "released"},
	{"lets go", "releases"},
	{"been let go", "been released"},
	{"beside it", "alongside it"},
	{"which needs none", "is exempt"},
	{"needs none of its own", "is exempt"},
	{"if it needs none", "if it is exempt"},
	{"called off", "cancelled"},
	{"call off", "cancel"},
	{"call that off", "cancel"},
	{"made anew", "recreated"},
	{"being dropped", "being removed"},
	{"hands off", "must not act"},
	{"without being asked", "automatically"},
	{"been asked to", "was requested to"},
	{"kept it alive", "no keepalive since"},
	{"does not get any further", "is stuck"},
	{"which is not there", "not found"},
	{"is the wanted state", "is the desired state"},
}

// TestWordsNeedOneReading reads code and documents for phrases that the field has words for.
func TestWordsNeedOneReading(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.Command("git", "-C", root, "ls-files", "*.go", "*.md", "*.yaml", "*.golden", "*.tpl",
		"*NOTES.txt", "*testdata/*.txt", "Makefile").Output()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		if path == "internal/architecture/words_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) { // Deleted, and not committed yet.
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		lower := strings.ToLower(string(text))
		for _, p := range phrases {
			if at := strings.Index(lower, p.phrase); at >= 0 {
				t.Errorf("%s:%d: %q (write: %s)", path, 1+strings.Count(lower[:at], "\n"), p.phrase, p.instead)
			}
		}
	}
}

// colloquial are words for what people do, and what the field says of programs instead. People are asked for
// confirmations. "Besides" means "in addition to".
var colloquial = []struct {
	words   *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b(ask|asks|asked|asking)\b( for (a|the) confirmation| for confirmation)?`),
		"request, query, call, read"},
	{regexp.MustCompile(`\b(tell|tells|told|telling)\b`), "report, return, show, distinguish"},
	{regexp.MustCompile(`\b(go|goes|going|went|gone) on\b`), "continue"},
	{regexp.MustCompile(`\bbeside\b`), "alongside, next to"},
}

// TestProgramsDoNotTalk reads comments, and strings outside of tests.
func TestProgramsDoNotTalk(t *testing.T) {
	for path, source := range tracked(t, "*.go", ":!internal/architecture") {
		for _, f := range colloquialIn(source, !strings.HasSuffix(path, "_test.go")) {
			t.Errorf("%s:%d: %q (write: %s)", path, f.line, f.word, f.instead)
		}
	}
}

// TestChartsDoNotTalk reads the comments of charts.
func TestChartsDoNotTalk(t *testing.T) {
	checked := 0
	for path, source := range tracked(t, "charts/*.yaml", "charts/*.tpl", ":!charts/testdata") {
		for i, line := range splitLines(source) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			checked++
			for _, f := range colloquialWords(line) {
				t.Errorf("%s:%d: %q (write: %s)", path, i+1, f.word, f.instead)
			}
		}
	}
	if checked == 0 {
		t.Error("no comments were found")
	}
}

// TestDocumentsDoNotTalk reads the prose of documents. Other words for what people do are theirs: who reads a document
// may ask somebody.
func TestDocumentsDoNotTalk(t *testing.T) {
	for path, source := range tracked(t, "*.md", ":!*/testdata/*") {
		for i, line := range strings.Split(prose(string(source)), "\n") {
			for _, f := range colloquialWords(askedPeople.ReplaceAllString(line, "")) {
				t.Errorf("%s:%d: %q (write: %s)", path, i+1, f.word, f.instead)
			}
		}
	}
}

// askedPeople are the forms of "ask" in documents that are about people.
var askedPeople = regexp.MustCompile(`(?i)\bask\b|\basks you\b`)

// inlineCode is code within a line of prose.
var inlineCode = regexp.MustCompile("`[^`]*`")

// prose returns a document without its code; its lines keep their numbers.
func prose(document string) string {
	lines, fenced := strings.Split(document, "\n"), false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fenced || fence {
			lines[i] = ""
		}
		fenced = fenced != fence
		lines[i] = inlineCode.ReplaceAllString(lines[i], "")
	}
	return strings.Join(lines, "\n")
}

func TestProse(t *testing.T) {
	document := "A `tell` is\n  ```\ntold\n  ```\nasked"
	if got, want := prose(document), "A  is\n\n\n\nasked"; got != want {
		t.Errorf("prose(%q) = %q, want %q", document, got, want)
	}
}

// TestNamesDoNotTalk reads the identifiers of programs, and the names of tests and of their parts.
func TestNamesDoNotTalk(t *testing.T) {
	for path, source := range tracked(t, "*.go", ":!internal/architecture") {
		for _, f := range colloquialNames(t, source, strings.HasSuffix(path, "_test.go")) {
			t.Errorf("%s:%d: %q (write: %s)", path, f.line, f.word, f.instead)
		}
	}
}

// wordsOfName finds the words of an identifier.
var wordsOfName = regexp.MustCompile(`[A-Z]?[a-z]+`)

// colloquialNames returns the colloquial words in the identifiers of a program; of a test, those in the names of its
// functions and of their parts, which are literals.
func colloquialNames(t *testing.T, source []byte, isTest bool) (found []finding) {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	add := func(n ast.Node, text string) {
		for _, f := range colloquialWords(text) {
			found = append(found, finding{files.Position(n.Pos()).Line, f.word, f.instead})
		}
	}
	ofName := func(n *ast.Ident) { // "untold" is not a word of its own.
		words := strings.Join(wordsOfName.FindAllString(n.Name, -1), " ")
		add(n, strings.ReplaceAll(words, "untold", "told"))
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if !isTest {
				ofName(n)
			}
		case *ast.FuncDecl:
			if isTest && strings.HasPrefix(n.Name.Name, "Test") {
				ofName(n.Name)
			}
		case *ast.CallExpr:
			name := slices.IndexFunc(n.Args, func(a ast.Expr) bool { _, ok := a.(*ast.BasicLit); return ok })
			if isTest && name >= 0 && (isCall(n, "", "Run") || isNamed(n.Fun, "step")) {
				add(n.Args[name], n.Args[name].(*ast.BasicLit).Value)
			}
		}
		return true
	})
	return found
}

func isNamed(n ast.Expr, name string) bool {
	id, ok := n.(*ast.Ident)
	return ok && id.Name == name
}

func TestColloquialNames(t *testing.T) {
	for _, tc := range []struct {
		source     string
		inProgram  int
		inTestFile int
	}{
		{`func askCare() {}`, 1, 0},
		{`var asked, task = 1, mask`, 1, 0},
		{`func f() error { var untold error; return untold }`, 2, 0},
		{`func TestItTellsWhy(t *testing.T) {}`, 1, 1},
		{`func f(t *testing.T) { t.Run("asks twice", g); step(t, "a server is told", g); log("told") }`, 0, 2},
	} {
		source := []byte("package p\n" + tc.source)
		if got := len(colloquialNames(t, source, false)); got != tc.inProgram {
			t.Errorf("%s: %d findings in a program, want %d", tc.source, got, tc.inProgram)
		}
		if got := len(colloquialNames(t, source, true)); got != tc.inTestFile {
			t.Errorf("%s: %d findings in a test, want %d", tc.source, got, tc.inTestFile)
		}
	}
}

type finding struct {
	line          int
	word, instead string
}

// colloquialIn returns the colloquial words in comments and, if wanted, in strings.
func colloquialIn(source []byte, inStrings bool) (found []finding) {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return found
		}
		if kind != token.COMMENT && (kind != token.STRING || !inStrings) {
			continue
		}
		for _, f := range colloquialWords(text) {
			found = append(found, finding{file.Line(at) + f.line, f.word, f.instead})
		}
	}
}

// colloquialWords returns the colloquial words of a text, whose first line is 0.
func colloquialWords(text string) (found []finding) {
	text = strings.ToLower(text)
	for _, c := range colloquial {
		for _, m := range c.words.FindAllStringIndex(text, -1) {
			word := text[m[0]:m[1]]
			if strings.HasSuffix(word, "confirmation") || m[0] > 0 && slices.Contains([]byte("-'_"), text[m[0]-1]) {
				continue
			}
			found = append(found, finding{strings.Count(text[:m[0]], "\n"), word, c.instead})
		}
	}
	return found
}

func TestColloquialIn(t *testing.T) {
	for source, want := range map[string]int{
		`// f tells whether a is b.`:                      1,
		`// f reports whether a is b, besides c.`:         0,
		`var a = "the server asks its neighbour"`:         1,
		`var a = "do not ask for a confirmation"`:         0,
		`var asked = tell() // client-go on a machine`:    0,
		"/* the update\n\ngoes on beside it */ var a = 1": 2,
	} {
		if got := colloquialIn([]byte("package p\n"+source+"\n"), true); len(got) != want {
			t.Errorf("%s: %v, want %d findings", source, got, want)
		}
	}
	if got := colloquialIn([]byte("package p\nvar a = \"ask\""), false); len(got) > 0 {
		t.Errorf("strings of tests: %v", got)
	}
}
