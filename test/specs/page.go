package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const introduction = `# Conformance

What came of [Kubernetes' conformance tests](https://github.com/cncf/k8s-conformance) on a Shoot of two nodes
([shoot-two-pools.yaml](../examples/shoot-two-pools.yaml)). This page is written by the target "conformance" of the Makefile,
which runs the tests of the newest minor, or of VERSION=1.35.4, for instance; with SPECS=sig-apps, for instance, a part is run, and
what came of the others stays. A minor without a section here was not run. The images that specs run are made from public Go modules
and Debian packages, since nothing is downloaded from a registry of images.

The target "test-long" runs a selection
([TestConformanceSelection](../test/e2e/story_conformance_selection_test.go)).
`

// Page shows results in Markdown. It depends on the results alone.
func Page(suites []Suite) string {
	var text strings.Builder
	text.WriteString(introduction)
	for _, s := range suites {
		text.WriteString("\n" + s.section())
	}
	return text.String()
}

func (s Suite) section() string {
	counts := Count(s.Specs)
	var text strings.Builder
	fmt.Fprintf(&text, "## Kubernetes %s\n\n", s.Kubernetes)
	run := len(s.Specs) - counts[NotRun]
	if run == len(s.Specs) {
		fmt.Fprintf(&text, "All %d specs were run: ", len(s.Specs))
	} else {
		fmt.Fprintf(&text, "Of %d specs, %d were run: ", len(s.Specs), run)
	}
	fmt.Fprintf(&text, "%d passed, %d failed, %d were skipped. Each is listed in [%s](%s).\n\n",
		counts[Passed], counts[Failed], counts[Skipped], s.file(), s.file())
	text.WriteString("| SIG | specs | passed | failed | skipped | not run | seconds, one after the other | day |\n")
	text.WriteString("|---|---|---|---|---|---|---|---|\n")
	groups := map[string][]Result{}
	for _, r := range s.Specs {
		groups[r.SIG()] = append(groups[r.SIG()], r)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		text.WriteString(row(name, groups[name]))
	}
	text.WriteString(row("all", s.Specs))
	s.list(&text, Failed)
	s.list(&text, Skipped)
	s.list(&text, NotRun)
	return text.String()
}

// file returns the path of the results, relative to the page.
func (s Suite) file() string {
	return folder + "/" + s.Kubernetes[:strings.LastIndex(s.Kubernetes, ".")] + ".json"
}

// row returns a line of the table: the number of specs per state, and when they were run.
func row(name string, specs []Result) string {
	counts, seconds, days := Count(specs), 0, []string{}
	for _, r := range specs {
		seconds += r.Seconds
		if r.Day != "" {
			days = append(days, r.Day)
		}
	}
	when := "never"
	if len(days) > 0 {
		when = slices.Min(days)
		if last := slices.Max(days); last != when {
			when += " to " + last
		}
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %s |\n", name, len(specs),
		counts[Passed], counts[Failed], counts[Skipped], counts[NotRun], seconds, when)
}

// list names the specs of a state, with the reasons of those that have one.
func (s Suite) list(text *strings.Builder, state State) {
	if Count(s.Specs)[state] == 0 {
		return
	}
	fmt.Fprintf(text, "\n### %s in %s\n\n", strings.ToUpper(string(state[:1]))+string(state[1:]), s.Kubernetes)
	if state == NotRun {
		text.WriteString("| spec |\n|---|\n")
	} else {
		text.WriteString("| spec | seconds | reason |\n|---|---|---|\n")
	}
	for _, r := range s.Specs {
		switch {
		case r.State != state:
		case state == NotRun:
			fmt.Fprintf(text, "| %s |\n", cell(r.Name))
		default:
			fmt.Fprintf(text, "| %s | %d | %s |\n", cell(r.Name), r.Seconds, cell(r.Reason))
		}
	}
}

// markdown escapes the special characters of a table in Markdown.
var markdown = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "]", `\]`, "(", `\(`, "\n", " ",
)

// cell makes plain text the content of a cell.
func cell(plain string) string { return markdown.Replace(plain) }
