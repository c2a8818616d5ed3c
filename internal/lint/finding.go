package lint

import (
	"slices"
	"strings"
	"time"
)

// Severity of a finding.
type Severity string

const (
	Error   Severity = "error"   // Shoots will be stuck, or the API server refuses the profile.
	Warning Severity = "warning" // Something cannot be used or reached, or is stuck for a while only.
	Info    Severity = "info"
)

// Rule names a check.
type Rule string

const (
	RuleInvalid           Rule = "invalid"             // The profile cannot be parsed.
	RuleDeadEnd           Rule = "dead-end"            // Versions that must be left, without an update path.
	RuleMinorGap          Rule = "minor-gap"           // Higher minors that cannot be reached.
	RuleUnusable          Rule = "unusable"            // Versions that nothing can use.
	RuleNoImage           Rule = "no-image"            // Machine types or Kubernetes versions without a machine image.
	RuleOverlap           Rule = "overlapping-support" // Two supported versions of one minor.
	RuleInPlacePath       Rule = "in-place-path"       // In-place updates without a path.
	RuleInUse             Rule = "in-use"              // Versions that Shoots use and the profile does not offer.
	RuleHighestExpires    Rule = "highest-expires"     // The highest Kubernetes version has an expiration date.
	RuleNoDefault         Rule = "no-default"          // No version for Shoots that do not specify one.
	RuleDeprecatedForever Rule = "deprecated-forever"  // Deprecated, and never expires.
)

// Finding is a present or future problem.
type Finding struct {
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule"`
	Profile  string   `json:"cloudProfile"`
	What     string   `json:"what"` // "kubernetes", or "image NAME".
	Version  string   `json:"version,omitempty"`
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"`
	// Deadline is the last time at which the fix prevents the problem. Empty if that is now, or if the time does not
	// matter.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Until is when the problem ends by itself; empty if it does not.
	Until *time.Time `json:"until,omitempty"`
	// Shoots is the number of Shoots on the version now, if Shoots were given.
	Shoots int `json:"shoots,omitempty"`
}

var severities = []Severity{Error, Warning, Info}

// sortFindings sorts by severity, then by deadline, then by name.
func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		if a.Severity != b.Severity {
			return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
		}
		if c := compareDeadlines(a.Deadline, b.Deadline); c != 0 {
			return c
		}
		return compareText(a, b)
	})
}

func compareText(a, b Finding) int {
	key := func(f Finding) string {
		return strings.Join([]string{f.Profile, f.What, string(f.Rule), f.Version, f.Message}, "\x00")
	}
	return strings.Compare(key(a), key(b))
}

func compareDeadlines(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Compare(*b)
}
