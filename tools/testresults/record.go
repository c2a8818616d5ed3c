package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// part of the tests, which is run at a time of its own.
type part struct {
	name, what, target string
	// byTest lists every test; other parts list packages, and the tests that have not passed.
	byTest bool
}

// parts in the order of the page.
var parts = []part{
	{"unit", "pure functions, and single programs on loopback addresses", "test-unit", false},
	{"servers", "controllers on a real etcd, kube-apiserver and API server of Hortus", "test-servers", false},
	{"fuzz", "random input for everything that reads what others write", "fuzz", true},
	{"stories", "a landscape, used as a person would", "test-landscape", true},
	{"host", "network namespaces, mounts and containers", "test-landscape", false},
	{"faults", "a fault at every write of moves, and 500 seeds of each simulation", "test-faults", true},
	{"race", "the tests of `internal/` with the race detector", "test-race", false},
	{"long", "stories that take too long for every change", "test-long", true},
}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// record is the last run of a part.
type record struct {
	Part    string   `json:"part"`
	Day     string   `json:"day"` // As 2006-01-02.
	Version string   `json:"version"`
	Machine string   `json:"machine"`
	Seconds int      `json:"seconds"` // From its beginning to its end; of a part run in pieces, those of the last piece.
	Results []result `json:"results"`
}

// result of a package or of one test.
type result struct {
	// Package is its path below the main module, or that of another module.
	Package string  `json:"package"`
	Test    string  `json:"test,omitempty"`
	State   state   `json:"state"`
	Reason  string  `json:"reason,omitempty"` // Why it was skipped, or the last that it logged before it failed.
	Seconds float64 `json:"seconds"`
	// Day and Version are those of an earlier piece, if the part was run in pieces.
	Day     string `json:"day,omitempty"`
	Version string `json:"version,omitempty"`
	Cached  bool   `json:"cached,omitempty"` // The package was not run again.
	// Tests of a package by state. Subtests do not count.
	Passed  int `json:"passed,omitempty"`
	Failed  int `json:"failed,omitempty"`
	Skipped int `json:"skipped,omitempty"`
}

func (r result) name() string { return cmp.Or(r.Test, r.Package) }

func byName(a, b result) int {
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Test, b.Test))
}

func slowestFirst(a, b result) int { return cmp.Compare(b.Seconds, a.Seconds) }

const mainModule = "hortus.dev/hortus/"

// results of the part, sorted by name: what the input has of its packages and tests.
func (p part) results(r *reader) []result {
	var results []result
	byPackage := map[string]*result{}
	for _, from := range r.packages {
		if from.state != skipped { // It has tests.
			byPackage[from.name] = &result{State: from.state, Seconds: tenths(from.seconds), Cached: from.cached}
		}
	}
	for _, t := range r.tests {
		one := result{
			Package: strings.TrimPrefix(t.pkg, mainModule), Test: t.name, State: t.state,
			Seconds: tenths(cmp.Or(t.took, t.seconds)),
		}
		if t.state != passed {
			one.Reason = shorten(t.log)
		}
		if p.byTest || t.state != passed {
			results = append(results, one)
		}
		if of := byPackage[t.pkg]; of != nil {
			switch t.state {
			case passed:
				of.Passed++
			case skipped:
				of.Skipped++
			default:
				of.Failed++
			}
		}
	}
	for name, of := range byPackage {
		of.Package = strings.TrimPrefix(name, mainModule)
		hasTests := of.Passed+of.Failed+of.Skipped > 0
		if of.State == failed && of.Failed == 0 { // It was not built, or ended early.
			of.Reason, hasTests = "no test failed, but the package did", true
		}
		if hasTests && (!p.byTest || of.Reason != "") {
			results = append(results, *of)
		}
	}
	slices.SortFunc(results, byName)
	return results
}

func tenths(seconds float64) float64 { return math.Round(seconds*10) / 10 }

// maxReason is the maximum length of a reason, in characters.
const maxReason = 200

func shorten(reason string) string {
	if utf8.RuneCountInString(reason) > maxReason {
		return string([]rune(reason)[:maxReason]) + "…"
	}
	return reason
}

// counts returns how many tests of the record have passed, failed and were skipped. A package that failed without a
// test counts as one.
func (r record) counts() map[state]int {
	counts := map[state]int{}
	for _, one := range r.Results {
		switch {
		case one.Test != "" && r.isByTest():
			counts[one.State]++
		case one.Test == "":
			counts[passed] += one.Passed
			counts[failed] += one.Failed
			counts[skipped] += one.Skipped
			if one.Reason != "" {
				counts[failed]++
			}
		}
	}
	return counts
}

// addedTo is the record with the results of an earlier one that it does not have itself.
func (r record) addedTo(before record) record {
	has := map[string]bool{}
	for _, one := range r.Results {
		has[one.Test] = true
	}
	all := slices.Clone(r.Results)
	for _, one := range before.Results {
		if one.Test != "" && !has[one.Test] {
			one.Day, one.Version = cmp.Or(one.Day, before.Day), cmp.Or(one.Version, before.Version)
			all = append(all, one)
		}
	}
	slices.SortFunc(all, byName)
	r.Results = all
	return r
}

// isInPieces reports whether the results are of several runs.
func (r record) isInPieces() bool {
	return slices.ContainsFunc(r.Results, func(one result) bool { return one.Day != "" })
}

// days are those of the first and the last run.
func (r record) days() string {
	first := r.Day
	for _, one := range r.Results {
		first = min(first, cmp.Or(one.Day, r.Day))
	}
	if first == r.Day {
		return r.Day
	}
	return first + " to " + r.Day
}

func (r record) isByTest() bool {
	return slices.ContainsFunc(parts, func(p part) bool { return p.name == r.Part && p.byTest })
}

func (r record) isOfStories() bool { return r.Part == "stories" || r.Part == "long" }

// recordsName is the folder of the records, next to the page.
const recordsName = "test-results"

func recordFile(folder, part string) string { return filepath.Join(folder, recordsName, part+".json") }

// write writes each result on a line of its own, so that a change of one shows as such.
func (r record) write(folder string) error {
	head := r
	head.Results = nil
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	before, found := strings.CutSuffix(string(line), `"results":null}`)
	if !found {
		return fmt.Errorf("record of %s: no results at the end of %s", r.Part, line)
	}
	lines := make([]string, 0, len(r.Results))
	for _, one := range r.Results {
		line, err := json.Marshal(one)
		if err != nil {
			return err
		}
		lines = append(lines, string(line))
	}
	file := recordFile(folder, r.Part)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+"\"results\":[\n"+strings.Join(lines, ",\n")+"\n]}\n"), 0o644)
}

// load returns the records of a folder in the order of the page.
func load(folder string) ([]record, error) {
	var records []record
	for _, p := range parts {
		content, err := os.ReadFile(recordFile(folder, p.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(content, &r); err != nil {
			return nil, fmt.Errorf("read results of %s: %w", p.name, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// versionOf names the version of the sources: the release, or the day of the last commit.
func versionOf(root string) (string, error) {
	if tag, err := exec.Command("git", "-C", root, "describe", "--tags", "--exact-match").Output(); err == nil {
		return strings.TrimSpace(string(tag)), nil
	}
	day, err := exec.Command("git", "-C", root, "log", "-1", "--format=%cs").Output()
	if err != nil {
		return "", fmt.Errorf("find the day of the last commit: %w", err)
	}
	return "dev of " + strings.TrimSpace(string(day)), nil
}
