package docs_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestResultsPageShowsTheResults compares the page with the recorded results of the tests, and with the stories there
// are.
func TestResultsPageShowsTheResults(t *testing.T) {
	// The go command knows only of files that the test itself reads when a cached result is outdated.
	files, err := filepath.Glob(filepath.Join("test-results", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "test-results.md") {
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	stories(t, "test/e2e")
	command := exec.CommandContext(t.Context(), "go", "run", "./testresults", "-check")
	command.Dir = filepath.Join(repository, "tools")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestEveryPartOfTheTestsIsRecorded compares the parts on the page of results with those that targets of the Makefile
// record, and checks its tables.
func TestEveryPartOfTheTestsIsRecorded(t *testing.T) {
	page, err := os.ReadFile("test-results.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range tableProblems(string(page)) {
		t.Errorf("test-results.md: %s", problem)
	}
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	shown, recorded := map[string]bool{}, map[string]bool{}
	_, table, _ := strings.Cut(string(page), "\n## Parts\n")
	table, _, _ = strings.Cut(table, "\n## ")
	row := regexp.MustCompile(`(?m)^\| \[?([a-z]+)[ \]].*\| .make [a-z-]+. \|`)
	for _, row := range row.FindAllStringSubmatch(table, -1) {
		shown[row[1]] = true
	}
	delete(shown, "conformance") // Its results have a page of their own.
	for _, use := range regexp.MustCompile(`\| \$\(RECORD\) ([a-z]+)`).FindAllStringSubmatch(string(makefile), -1) {
		recorded[use[1]] = true
	}
	if len(recorded) < 5 {
		t.Errorf("the Makefile records %d parts; is the pattern broken?", len(recorded))
	}
	if !maps.Equal(shown, recorded) {
		t.Errorf("parts on the page: %v; parts that the Makefile records: %v", slices.Sorted(maps.Keys(shown)),
			slices.Sorted(maps.Keys(recorded)))
	}
}

// tableProblems are the rows of tables in Markdown that have other columns than the head of their table.
func tableProblems(page string) []string {
	var problems []string
	columns := 0
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns == 0 {
			columns = cells
		}
		if cells != columns || !strings.HasSuffix(line, "|") {
			problems = append(problems, line)
		}
	}
	return problems
}

func TestTableProblems(t *testing.T) {
	for page, want := range map[string]int{
		"| a | b |\n|---|---|\n| c | d |\n":            0,
		"| a | b |\n|---|---|\n| c |\n":                1,
		"| a |\n|---|\n\n| a | b |\n|---|---|\n":       0,
		"| a | b |\n|---|---|\n| c \\| c | d |\n":      0,
		"| a | b |\n|---|---|\n| c | d | e\ntext\n":    1,
		"text\n| a | b |\n|---|---|\n| c | d | e | \n": 1,
	} {
		if got := tableProblems(page); len(got) != want {
			t.Errorf("problems of %q: %q, want %d", page, got, want)
		}
	}
}
