package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/hortus/internal/cli"
)

// notRun are commands of documents that no test runs, and why.
var notRun = map[string]string{
	"hortus bench landscape":  "measures a landscape for minutes; its tests have a landscape with known times",
	"hortus bench neighbours": "measures a landscape for minutes; its parts have tests",
	"kubectl config": "a kube-apiserver that is configured anew; those of the local cloud have the configuration from the " +
		"beginning",
}

// TestCommandsOfDocumentsAreRun: for each command of a document there is a file of tests with its words, that is its
// name and its flags. The README's tour and the tutorial about extensions are run word by word, by stories.
func TestCommandsOfDocumentsAreRun(t *testing.T) {
	files := testFiles(t)
	unused := maps.Clone(notRun)
	checked := 0
	for path, doc := range documents(t) {
		switch path {
		case "README.md":
			doc = withoutTour(t)
		case "examples/extension/README.md":
			continue
		}
		for _, line := range doc.commands {
			for _, words := range commandsOf(line) {
				name, flags := nameAndFlags(words)
				if name == nil {
					continue
				}
				checked++
				if _, excused := notRun[strings.Join(name, " ")]; excused {
					delete(unused, strings.Join(name, " "))
				} else if !slices.ContainsFunc(files, func(f testFile) bool { return f.runs(name, flags) }) {
					t.Errorf("%s: no test runs %q: no file of tests has all words of %q", path, line, append(name, flags...))
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were found; is the parser broken?", checked)
	}
	for name := range unused {
		t.Errorf("no document has the command %q any more", name)
	}
}

func TestNameAndFlags(t *testing.T) {
	for line, want := range map[string]string{
		"hortus backup list demo -n garden-dev":                "hortus backup list",
		"hortus plan --until=2y -o wide":                       "hortus plan --until",
		"hortus gardenlet":                                     "", // The name of a part.
		"kubectl -n garden get secret a -o json":               "kubectl get",
		"kubectl --kubeconfig x rollout status deployment/a":   "kubectl rollout",
		"kubectl create clusterrole a --verb=get":              "kubectl create --verb",
		"helm upgrade a charts/a --namespace garden --set a=b": "helm upgrade --namespace --set",
		"make up": "", "kubectl": "",
	} {
		var got []string
		for _, words := range commandsOf(line) {
			name, flags := nameAndFlags(words)
			got = append(got, append(name, flags...)...)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("nameAndFlags(%q) = %q, want %q", line, got, want)
		}
	}
}

// TestFileRuns: a file has to have the whole name and every flag. Tests in the package of a command need not name
// the first part of it.
func TestFileRuns(t *testing.T) {
	name, flags := []string{"hortus", "backup", "list"}, []string{"--at"}
	for _, tc := range []struct {
		path  string
		words []string
		runs  bool
	}{
		{"test/e2e/a_test.go", []string{"backup", "list", "--at"}, true},
		{"test/e2e/a_test.go", []string{"backup", "list"}, false},
		{"test/e2e/a_test.go", []string{"list", "--at"}, false},
		{"internal/backup/a_test.go", []string{"list", "--at"}, true},
		{"internal/backup/a_test.go", []string{"backup", "--at"}, false},
	} {
		f := testFile{path: tc.path, words: map[string]bool{}}
		for _, word := range tc.words {
			f.words[word] = true
		}
		if got := f.runs(name, flags); got != tc.runs {
			t.Errorf("%s with the words %q runs the command: %t", tc.path, tc.words, got)
		}
	}
}

// withoutTour is the README without the section whose commands a story runs.
func withoutTour(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "\n## Five minutes\n")
	if !found {
		t.Fatal("the README has no section 'Five minutes'")
	}
	_, after, _ := strings.Cut(rest, "\n## ")
	return parse(before + "\n## " + after)
}

// placeFlags say where a command acts, not what it does. Tests have other ways to say it.
var placeFlags = []string{"--kubeconfig", "--namespace", "-n"}

// nameAndFlags returns the words by which a command of hortus, kubectl or helm can be recognized; no name for others.
func nameAndFlags(words []string) (name, flags []string) {
	switch words[0] {
	case "hortus":
		// The name of a part in a sentence, such as `hortus apiserver`, has no further words.
		if command, _, err := cli.NewCommand().Find(words[1:]); err == nil && len(words) > 2 {
			name = strings.Fields(command.CommandPath())
		}
	case "kubectl", "helm":
		for i := 1; i < len(words); i++ {
			if slices.Contains(placeFlags, words[i]) {
				i++ // Its value.
			} else if !strings.HasPrefix(words[i], "-") {
				name = []string{words[0], words[i]}
				break
			}
		}
	}
	if len(name) < 2 {
		return nil, nil
	}
	for _, word := range words[1:] {
		flag, _, _ := strings.Cut(word, "=")
		if word == "--" {
			break
		}
		if strings.HasPrefix(flag, "--") && (words[0] == "helm" || !slices.Contains(placeFlags, flag)) {
			flags = append(flags, flag)
		}
	}
	return name, flags
}

// testFile has the words of all texts in a file of tests.
type testFile struct {
	path  string // From the root of the repository.
	words map[string]bool
}

// runs reports whether the file has all words of a command. Tests in the package of a command of hortus begin with its
// subcommands or flags.
func (f testFile) runs(name, flags []string) bool {
	words := slices.Concat(name[1:], flags)
	if name[0] == "hortus" && !strings.HasPrefix(f.path, "test/") && len(words) > 1 {
		words = words[1:]
	}
	return !slices.ContainsFunc(words, func(word string) bool { return !f.words[word] })
}

// separators are between the words of a text.
var separators = regexp.MustCompile(`[\s"'=,;]+`)

// testFiles reads the files of tests of the whole repository, except those of this folder.
func testFiles(t *testing.T) []testFile {
	t.Helper()
	var out []testFile
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "docs" || strings.HasPrefix(entry.Name(), ".") && path != repository) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		from, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		f := testFile{path: filepath.ToSlash(from), words: map[string]bool{}}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, is := n.(*ast.BasicLit)
			if !is || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				return true
			}
			for _, word := range separators.Split(text, -1) {
				f.words[word] = true
			}
			return true
		})
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
