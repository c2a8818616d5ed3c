package specs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// State is the outcome of a spec.
type State string

const (
	Passed  State = "passed"
	Failed  State = "failed"
	Skipped State = "skipped" // By the spec itself, which gives a reason.
	NotRun  State = "not run" // Left out, or interrupted, by the person who ran the others.
)

// Result is the result of one spec.
type Result struct {
	// Name is the whole text of the spec, with its tags. Steps around all specs have the name of their kind.
	Name   string `json:"name"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Seconds is how long the spec ran.
	Seconds int `json:"seconds,omitempty"`
	// Day of the run, as 2006-01-02; empty if the spec was not run.
	Day string `json:"day,omitempty"`
}

var sig = regexp.MustCompile(`\[sig-([a-z-]+)\]`)

// SIG is the special interest group that wrote the spec, such as "network".
func (r Result) SIG() string {
	if match := sig.FindStringSubmatch(r.Name); match != nil {
		return match[1]
	}
	return "none"
}

// IsConformance reports whether the spec is one of the conformance tests.
func (r Result) IsConformance() bool { return strings.Contains(r.Name, "[Conformance]") }

// specReport is the part of a spec's report that is read.
type specReport struct {
	ContainerHierarchyTexts    []string
	LeafNodeType, LeafNodeText string
	State                      string
	Failure                    struct{ Message string }
	RunTime                    time.Duration
}

// Read returns the results in a report that ginkgo has written as JSON, those of specs that were not run included,
// sorted by name. hide replaces details of this machine in reasons that must not be shown.
func Read(report []byte, day string, hide *strings.Replacer) ([]Result, error) {
	var suites []struct{ SpecReports []specReport }
	if err := json.Unmarshal(report, &suites); err != nil {
		return nil, fmt.Errorf("read report of ginkgo: %w", err)
	}
	var results []Result
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			r := Result{
				Name:    strings.Join(append(slices.Clone(spec.ContainerHierarchyTexts), spec.LeafNodeText), " "),
				Seconds: int(spec.RunTime.Round(time.Second).Seconds()), Day: day,
			}
			r.State, r.Reason = outcome(spec)
			r.Reason = shorten(hide.Replace(r.Reason))
			if spec.LeafNodeType != "It" {
				if r.State != Failed {
					continue
				}
				r.Name = spec.LeafNodeType
			}
			if r.State == NotRun {
				r.Day, r.Seconds = "", 0
			}
			results = append(results, r)
		}
	}
	slices.SortFunc(results, byName)
	return results, nil
}

func byName(a, b Result) int { return strings.Compare(a.Name, b.Name) }

// outcome is the state of a spec with its reason on one line.
func outcome(spec specReport) (State, string) {
	reason := strings.Join(strings.Fields(spec.Failure.Message), " ")
	switch spec.State {
	case "passed":
		return Passed, ""
	case "skipped":
		if reason == "" { // Ginkgo skips specs that the expressions exclude without a reason.
			return NotRun, ""
		}
		return Skipped, reason
	case "interrupted": // By the person who runs them, which says nothing about the cluster.
		return NotRun, ""
	case "pending":
		return Skipped, "marked as pending"
	case "failed":
		return Failed, reason
	default: // It panicked or took too long.
		return Failed, strings.TrimSuffix(spec.State+": "+reason, ": ")
	}
}

// longest is the maximum length of a reason, in characters; some quote whole objects.
const longest = 300

func shorten(reason string) string {
	if runes := []rune(reason); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return reason
}

// Count returns the number of results of each state.
func Count(results []Result) map[State]int {
	counts := map[State]int{}
	for _, r := range results {
		counts[r.State]++
	}
	return counts
}

// Summary returns the number of specs that passed, and the others that were run with their reasons.
func Summary(results []Result) string {
	counts := Count(results)
	var text strings.Builder
	fmt.Fprintf(&text, "%d passed, %d failed, %d skipped", counts[Passed], counts[Failed], counts[Skipped])
	for _, state := range []State{Failed, Skipped} {
		for _, r := range results {
			if r.State == state {
				fmt.Fprintf(&text, "\n%s after %d s: %s: %s", r.State, r.Seconds, r.Name, r.Reason)
			}
		}
	}
	return text.String()
}
