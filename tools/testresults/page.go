package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const pageName = "test-results.md"

const introduction = `# Results of the tests

The last run of each part of the tests that ` + "`make test-all`" + ` runs. Parts may be run at different times; each shows its own day.
Kubernetes' conformance tests have [a page of their own](conformance.md). [Development](development.md) describes the parts. This page
is written by ` + "`tools/testresults`" + ` from the files in ` + "`docs/test-results`" + `, which have every package and test.

Times are seconds. Those of stories are without the time of waiting for others; three of them run at the same time. Tests are
functions; their subtests do not count.
`

// page is the page of all results: those in the folder, and those of the conformance tests.
func page(root, folder string) ([]byte, error) {
	records, err := load(folder)
	if err != nil {
		return nil, err
	}
	minors, err := conformance(filepath.Join(root, "docs"))
	if err != nil {
		return nil, err
	}
	stories, err := storiesOf(filepath.Join(root, "test", "e2e"))
	if err != nil {
		return nil, err
	}
	return []byte(render(records, minors, stories)), nil
}

// render is the page in Markdown. It depends on its arguments alone.
func render(records []record, minors []minor, stories []string) string {
	records = slices.Clone(records)
	for i, r := range records {
		if r.isOfStories() { // Results of stories that no longer exist are not shown.
			records[i].Results = slices.DeleteFunc(slices.Clone(r.Results), func(one result) bool {
				return one.Test != "" && !slices.Contains(stories, one.Test)
			})
		}
	}
	var text strings.Builder
	text.WriteString(introduction + "\n## Parts\n\n")
	text.WriteString("| part | what | command | day | version | machine | duration | passed | failed | skipped |\n")
	text.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range parts {
		i := slices.IndexFunc(records, func(r record) bool { return r.Part == p.name })
		if i < 0 {
			fmt.Fprintf(&text, "| %s | %s | `make %s` | no result yet | | | | | | |\n", p.name, p.what, p.target)
			continue
		}
		r := records[i]
		counts, took := r.counts(), duration(r.Seconds)
		if r.isInPieces() {
			took = "in pieces"
		}
		fmt.Fprintf(&text, "| [%s](#%s) | %s | `make %s` | %s | %s | %s | %s | %d | %d | %d |\n", p.name, p.name, p.what,
			p.target, r.days(), cell(r.Version), cell(r.Machine), took, counts[passed], counts[failed],
			counts[skipped])
	}
	for _, m := range minors {
		fmt.Fprintf(&text, "| [conformance of %s](conformance.md) | Kubernetes' conformance tests | `make conformance` | %s | "+
			"| | | %d | %d | %d |\n", m.Kubernetes, m.days(), m.count("passed"), m.count("failed"), m.count("skipped"))
	}
	var names []string
	for _, r := range records {
		if r.isOfStories() {
			for _, one := range r.Results {
				names = append(names, one.Test)
			}
		}
		text.WriteString("\n" + r.section())
	}
	text.WriteString("\n## Stories without a result\n\n")
	without := slices.DeleteFunc(slices.Clone(stories), func(name string) bool { return slices.Contains(names, name) })
	for _, name := range without {
		fmt.Fprintf(&text, "- %s\n", name)
	}
	if len(without) == 0 {
		text.WriteString("None.\n")
	}
	return text.String()
}

// quick is the time, in seconds, below which packages are not listed.
const quick = 1

// section has what failed or was skipped, with the reasons, and the times.
func (r record) section() string {
	var text strings.Builder
	fmt.Fprintf(&text, "## %s\n", r.Part)
	var others, shown []result
	hidden, hiddenTests := 0, 0
	for _, one := range r.Results {
		if one.Reason != "" || one.State != passed && one.Test != "" {
			others = append(others, one)
		}
		switch {
		case one.Test != "" && !r.isByTest():
		case one.Test == "" && (one.Seconds < quick || one.Cached) && one.State == passed:
			hidden++
			hiddenTests += one.Passed + one.Skipped
		default:
			shown = append(shown, one)
		}
	}
	if len(others) > 0 {
		text.WriteString("\n| not passed | result | reason |\n|---|---|---|\n")
		for _, one := range others {
			fmt.Fprintf(&text, "| %s | %s | %s |\n", cell(one.label(r)), one.State, cell(one.Reason))
		}
	}
	slices.SortStableFunc(shown, slowestFirst)
	if r.isInPieces() {
		text.WriteString("\n| test | result | seconds | day | version |\n|---|---|---|---|---|\n")
		for _, one := range shown {
			fmt.Fprintf(&text, "| %s | %s | %.0f | %s | %s |\n", cell(one.label(r)), one.State, one.Seconds,
				cmp.Or(one.Day, r.Day), cell(cmp.Or(one.Version, r.Version)))
		}
		return text.String()
	}
	if r.isByTest() {
		text.WriteString("\n| test | result | seconds |\n|---|---|---|\n")
		for _, one := range shown {
			fmt.Fprintf(&text, "| %s | %s | %.0f |\n", cell(one.label(r)), one.State, one.Seconds)
		}
		return text.String()
	}
	text.WriteString("\n| package | result | tests | seconds |\n|---|---|---|---|\n")
	for _, one := range shown {
		fmt.Fprintf(&text, "| `%s` | %s | %d | %.1f |\n", one.Package, one.State, one.Passed+one.Failed+one.Skipped,
			one.Seconds)
	}
	if hidden > 0 {
		fmt.Fprintf(&text, "| others (%d), below %d s each or with a known result | passed | %d | |\n", hidden, quick, hiddenTests)
	}
	return text.String()
}

// label names a result, with the package if the record is of several.
func (one result) label(r record) string {
	if one.Test == "" {
		return one.Package
	}
	several := slices.ContainsFunc(r.Results, func(other result) bool { return other.Package != one.Package })
	if several {
		return one.Package + ": " + one.Test
	}
	return one.Test
}

func duration(seconds int) string {
	d := time.Duration(seconds) * time.Second
	if d < time.Minute {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), seconds%60)
}

// markdown escapes the special characters of a table in Markdown.
var markdown = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "]", `\]`, "(", `\(`, "\n", " ",
)

// cell makes plain text the content of a cell.
func cell(plain string) string { return markdown.Replace(plain) }

// minor has the results of the conformance tests of one minor of Kubernetes.
type minor struct {
	Kubernetes string
	Specs      []struct{ State, Day string }
}

func (m minor) count(state string) int {
	n := 0
	for _, s := range m.Specs {
		if s.State == state {
			n++
		}
	}
	return n
}

// days are those of the first and the last result.
func (m minor) days() string {
	var days []string
	for _, s := range m.Specs {
		if s.Day != "" {
			days = append(days, s.Day)
		}
	}
	if len(days) == 0 {
		return "no result yet"
	}
	first, last := slices.Min(days), slices.Max(days)
	if first == last {
		return first
	}
	return first + " to " + last
}

// conformance reads the results of the conformance tests, the newest minor first.
func conformance(docs string) ([]minor, error) {
	files, err := filepath.Glob(filepath.Join(docs, "conformance", "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	slices.Reverse(files)
	var minors []minor
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var m minor
		if err := json.Unmarshal(content, &m); err != nil {
			return nil, fmt.Errorf("read results of specs %q: %w", file, err)
		}
		minors = append(minors, m)
	}
	return minors, nil
}

// storiesOf are the tests of the landscape, except the conformance tests, whose results have files of their own.
func storiesOf(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%d files with stories in %s", len(files), folder))
	}
	var stories []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			function, is := declaration.(*ast.FuncDecl)
			if is && function.Recv == nil && isStory(function.Name.Name) {
				stories = append(stories, function.Name.Name)
			}
		}
	}
	slices.Sort(stories)
	return stories, nil
}

func isStory(name string) bool {
	return strings.HasPrefix(name, "Test") && name != "TestMain" && name != "TestConformance"
}
