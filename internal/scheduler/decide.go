package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Strategy says which of the suitable Seeds are near enough.
type Strategy string

const (
	// SameRegion selects Seeds of the Shoot's provider type in the Shoot's region.
	SameRegion Strategy = "SameRegion"
	// MinimalDistance selects the Seeds nearest to the Shoot's region.
	MinimalDistance Strategy = "MinimalDistance"
)

// Candidate is a Seed and the number of its Shoots.
type Candidate struct {
	Seed   *corev1beta1.Seed
	Shoots int
}

// Input is everything that a decision depends on.
type Input struct {
	Shoot *corev1beta1.Shoot
	// Project is the name of the Shoot's project, which is part of its default domain.
	Project string
	// Profile is the spec of the Shoot's CloudProfile, for a NamespacedCloudProfile its merged spec.
	Profile *corev1beta1.CloudProfileSpec
	// Distances maps regions of Seeds to their distance from the Shoot's region; nil if the operator has configured none.
	Distances map[string]int
	// DistancesError says why the operator's distances cannot be read. Decisions by distance fail with it.
	DistancesError error
	Strategy       Strategy
	// DefaultDomains are the default domains of all Seeds, candidates or not.
	DefaultDomains []string
	// Candidates in the order in which they are preferred if they are tied.
	Candidates []Candidate
}

// Verdict says why a Seed was chosen or not.
type Verdict struct {
	Seed string `json:"seed"`
	// Passed is true for all Seeds among which the one with the fewest Shoots was chosen.
	Passed bool `json:"passed"`
	// Filter names the first stage that the Seed failed; empty if it passed all.
	Filter string `json:"filter"`
	Reason string `json:"reason"`
	// Reasons lists all stages that the Seed fails when each is applied alone, in their order. Set by Explain.
	Reasons []Reason `json:"reasons,omitempty"`
	// Change is what to change in the Shoot so that the Seed passes all stages that check it alone; empty if it does, or
	// if no change of the Shoot is sufficient. Set by Explain.
	Change string `json:"change,omitempty"`
}

// Reason says why a Seed fails a stage.
type Reason struct {
	Filter string `json:"filter"`
	Reason string `json:"reason"`
}

// Decision is the Seed for a Shoot, with the reasons.
type Decision struct {
	// Seed is the chosen Seed; empty if none is suitable.
	Seed string `json:"seed"`
	// TiedSeeds lists all Seeds that are as suitable as the chosen one, including it; empty if none is.
	TiedSeeds []string `json:"tiedSeeds"`
	// Error says why there is no Seed, for users.
	Error string `json:"error"`
	// Verdicts on all candidates, in the same order.
	Verdicts []Verdict `json:"verdicts"`
}

// Decide chooses the seed for a Shoot.
func Decide(in Input) Decision {
	d := Decision{TiedSeeds: []string{}, Verdicts: make([]Verdict, len(in.Candidates))}
	var left []Candidate
	for i, c := range in.Candidates {
		d.Verdicts[i] = Verdict{Seed: c.Seed.Name, Passed: true}
		for _, f := range filters {
			if reason := f.check(in, c); reason != "" {
				d.Verdicts[i] = Verdict{Seed: c.Seed.Name, Filter: f.name, Reason: reason}
				break
			}
		}
		if d.Verdicts[i].Passed {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		d.Error = noneFits(d.Verdicts)
		return d
	}
	for _, stage := range comparisons {
		kept, reason, err := stage.keep(in, left)
		if err != nil {
			d.Error = err.Error()
			d.refuse(left, stage.name, func(Candidate) string { return err.Error() })
			return d
		}
		d.refuse(dropped(left, kept), stage.name, reason)
		left = kept
	}
	fewest := slices.MinFunc(left, func(a, b Candidate) int { return a.Shoots - b.Shoots })
	d.Seed = fewest.Seed.Name // MinFunc returns the first of equal ones.
	for _, c := range left {
		if c.Shoots == fewest.Shoots {
			d.TiedSeeds = append(d.TiedSeeds, c.Seed.Name)
		}
	}
	return d
}

// dropped returns the candidates that were not kept.
func dropped(from, kept []Candidate) (rest []Candidate) {
	for _, c := range from {
		if !slices.ContainsFunc(kept, func(k Candidate) bool { return k.Seed == c.Seed }) {
			rest = append(rest, c)
		}
	}
	return rest
}

// refuse turns the verdicts on seeds that were left until a stage.
func (d *Decision) refuse(candidates []Candidate, stage string, reason func(Candidate) string) {
	for _, c := range candidates {
		i := slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return v.Seed == c.Seed.Name })
		d.Verdicts[i] = Verdict{Seed: c.Seed.Name, Filter: stage, Reason: reason(c)}
	}
}

// noneFits sums up the verdicts, most frequent filter first.
func noneFits(verdicts []Verdict) string {
	if len(verdicts) == 0 {
		return "there are no seeds"
	}
	seeds := map[string][]string{}
	var filters []string
	for _, v := range verdicts {
		if len(seeds[v.Filter]) == 0 {
			filters = append(filters, v.Filter)
		}
		seeds[v.Filter] = append(seeds[v.Filter], fmt.Sprintf("%s: %s", v.Seed, v.Reason))
	}
	slices.SortStableFunc(filters, func(a, b string) int { return len(seeds[b]) - len(seeds[a]) })
	const shown = 3 // Per filter: the text goes into the Shoot's status; 'hortus schedule' shows all.
	var parts []string
	for _, filter := range filters {
		reasons := seeds[filter]
		text := strings.Join(reasons[:min(shown, len(reasons))], "; ")
		if more := len(reasons) - shown; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		parts = append(parts, fmt.Sprintf("%d by %s (%s)", len(reasons), filter, text))
	}
	return fmt.Sprintf("no seed fits (%d checked): %s", len(verdicts), strings.Join(parts, ", "))
}

func isTesting(s *corev1beta1.Shoot) bool {
	return s.Spec.Purpose != nil && *s.Spec.Purpose == corev1beta1.ShootPurposeTesting
}
