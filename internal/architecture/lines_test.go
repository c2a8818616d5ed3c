package architecture

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLine is the maximum length of a line in characters; a tab counts as one.
const maxLine = 120

// longString is the length from which a string may make its line longer: a divided string would be harder to find.
const longString = 50

// TestLinesAreShort reads all Go files except generated ones. Fields and markers of the API's types, which other
// programs read, and lines within raw strings may have any length.
func TestLinesAreShort(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.Command("git", "-C", root, "ls-files", "*.go").Output()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		if strings.HasPrefix(filepath.Base(path), "zz_generated") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) { // Deleted, and not committed yet.
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		longer := stringsOf(source)
		for i, line := range splitLines(source) {
			if strings.HasSuffix(path, "_types.go") && isFieldOrMarker(line) {
				continue
			}
			if n := utf8.RuneCountInString(line) - longer[i+1]; n > maxLine {
				t.Errorf("%s:%d: %d characters (at most %d)", path, i+1, utf8.RuneCountInString(line), maxLine)
			}
		}
	}
}

// isFieldOrMarker reports whether a line is a field of the API, which has a tag, or a marker for a generator.
func isFieldOrMarker(line string) bool {
	return strings.Contains(line, "`json:") || strings.HasPrefix(strings.TrimSpace(line), "// +")
}

func TestIsFieldOrMarker(t *testing.T) {
	for line, want := range map[string]bool{
		"\tName string `json:\"name\"`":         true,
		"\t// +optional":                        true,
		"// +kubebuilder:printcolumn:name=Type": true,
		"\t// name of the object.":              false,
		"type Shoot struct {":                   false,
	} {
		if got := isFieldOrMarker(line); got != want {
			t.Errorf("%q: %t, want %t", line, got, want)
		}
	}
}

// TestCommentsOutsideGoAreShort reads the comments of the Makefile and of charts. Commands, help texts and templates
// may be longer, since a divided line would change them.
func TestCommentsOutsideGoAreShort(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.Command("git", "-C", root, "ls-files", "Makefile", "charts/*.yaml", "charts/*.tpl").Output()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	checked := 0
	for _, path := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) || strings.Contains(path, "/testdata/") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range splitLines(text) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			checked++
			if n := utf8.RuneCountInString(line); n > maxLine {
				t.Errorf("%s:%d: %d characters (at most %d)", path, i+1, n, maxLine)
			}
		}
	}
	if checked == 0 {
		t.Error("no comments were found")
	}
}

func splitLines(source []byte) []string { return strings.Split(string(source), "\n") }

// stringsOf returns, by line, how much longer than others it may be because of its strings.
func stringsOf(source []byte) map[int]int {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	longer := map[int]int{}
	for {
		at, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return longer
		case kind != token.STRING:
			continue
		}
		line := file.Line(at)
		if parts := strings.Split(text, "\n"); len(parts) > 1 { // A raw string.
			for i := range parts {
				longer[line+i] = len(source)
			}
		} else if utf8.RuneCountInString(text) >= longString {
			longer[line] += utf8.RuneCountInString(text)
		}
	}
}

func TestStringsOf(t *testing.T) {
	long := `"` + strings.Repeat("x", longString) + `"`
	for source, want := range map[string]bool{
		"package a\nvar b = " + long:                           true,
		"package a\nvar b = \"short\"":                         false,
		"package a\nvar b = `\n" + long + "\n`\n":              true,
		"package a\n// " + long + "\nvar c = 'x'":              false,
		"package a\nvar b = `" + strings.Repeat("y", 60) + "`": true,
	} {
		if got := len(stringsOf([]byte(source))) > 0; got != want {
			t.Errorf("%q: %t, want %t", source, got, want)
		}
	}
}
