package architecture

import (
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
		text = strings.ToLower(text)
		for _, c := range colloquial {
			for _, m := range c.words.FindAllStringIndex(text, -1) {
				word := text[m[0]:m[1]]
				if strings.HasSuffix(word, "confirmation") || m[0] > 0 && slices.Contains([]byte("-'_"), text[m[0]-1]) {
					continue
				}
				found = append(found, finding{file.Line(at) + strings.Count(text[:m[0]], "\n"), word, c.instead})
			}
		}
	}
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
