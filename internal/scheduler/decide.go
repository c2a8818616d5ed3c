package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Strategy says which of the fitting seeds are near enough.
type Strategy string

const (
	// SameRegion wants a seed of the Shoot's provider type in the Shoot's region.
	SameRegion Strategy = "SameRegion"
	// MinimalDistance takes the seeds nearest to the Shoot's region.
	MinimalDistance Strategy = "MinimalDistance"
)

// Candidate is a seed and how many Shoots it has.
type Candidate struct {
	Seed   *corev1beta1.Seed
	Shoots int
}

// Input is everything that a decision depends on.
type Input struct {
	Shoot *corev1beta1.Shoot
	// Profile is the spec of the Shoot's CloudProfile, for a NamespacedCloudProfile its merged spec.
	Profile *corev1beta1.CloudProfileSpec
	// Distances maps regions of seeds to their distance from the Shoot's region; nil if the operator gave none.
	Distances map[string]int
	Strategy  Strategy
	// Candidates in the order in which ties are broken.
	Candidates []Candidate
}

// Verdict says why a seed was taken or not.
type Verdict struct {
	Seed   string `json:"seed"`
	Passed bool   `json:"passed"`
	// Filter names the first filter that the seed failed, empty if it passed all.
	Filter string `json:"filter"`
	Reason string `json:"reason"`

	// failures lists every filter that the seed fails, to find the smallest change that makes the Shoot fit.
	failures []failure
}

// Decision is where a Shoot goes and why.
type Decision struct {
	// Seed is the chosen one, empty if none fits.
	Seed string `json:"seed"`
	// TiedSeeds lists all seeds that are as good as the chosen one, which is among them; empty if none fits.
	TiedSeeds []string `json:"tiedSeeds"`
	// Error tells a user why there is no seed.
	Error string `json:"error"`
	// Verdicts on every candidate, in their order.
	Verdicts []Verdict `json:"verdicts"`
}

// Decide chooses the seed for a Shoot. A Shoot that names its seed is only checked against that one.
func Decide(in Input) Decision {
	d := Decision{TiedSeeds: []string{}, Verdicts: []Verdict{}}
	var fitting []Candidate
	domains := defaultDomains(in.Candidates)
	for _, c := range in.Candidates {
		if name := in.Shoot.Spec.SeedName; name != nil && c.Seed.Name != *name {
			continue
		}
		v := Verdict{Seed: c.Seed.Name, failures: failuresOf(in, c, domains)}
		if len(v.failures) == 0 {
			v.Passed = true
			fitting = append(fitting, c)
		} else {
			v.Filter, v.Reason = v.failures[0].filter, v.failures[0].reason
		}
		d.Verdicts = append(d.Verdicts, v)
	}
	if name := in.Shoot.Spec.SeedName; name != nil {
		if len(fitting) == 1 {
			d.Seed, d.TiedSeeds = *name, []string{*name}
			return d
		}
		d.Error = noneFits(d.Verdicts, fmt.Sprintf("the Shoot asks for seed %q, which does not exist", *name))
		return d
	}

	near := fitting
	if len(fitting) > 0 {
		near = nearest(in, fitting)
		d.markFar(in, near)
	}
	if len(near) == 0 {
		d.Error = noneFits(d.Verdicts, "there are no seeds")
		return d
	}
	fewest := slices.MinFunc(near, func(a, b Candidate) int { return a.Shoots - b.Shoots })
	d.Seed = fewest.Seed.Name // MinFunc returns the first of equal ones.
	for _, c := range near {
		if c.Shoots == fewest.Shoots {
			d.TiedSeeds = append(d.TiedSeeds, c.Seed.Name)
		}
	}
	return d
}

// nearest keeps the candidates that the strategy accepts.
func nearest(in Input, fitting []Candidate) []Candidate {
	sameType := func(c Candidate) bool { return c.Seed.Spec.Provider.Type == in.Shoot.Spec.Provider.Type }
	if isTesting(in.Shoot) { // A test cluster may run anywhere, so that it does not take a place near users.
		return keep(fitting, sameType)
	}
	if in.Strategy != MinimalDistance {
		return keep(fitting, func(c Candidate) bool { return sameType(c) && c.Seed.Spec.Provider.Region == in.Shoot.Spec.Region })
	}
	best := -1
	var near []Candidate
	for _, c := range fitting {
		distance, known := in.distance(c.Seed)
		switch {
		case !known || best >= 0 && distance > best:
		case distance == best:
			near = append(near, c)
		default:
			best, near = distance, []Candidate{c}
		}
	}
	return near
}

// distance of a seed from the Shoot's region: what the operator says if he says anything, else by the regions' names.
func (in Input) distance(seed *corev1beta1.Seed) (distance int, known bool) {
	region := seed.Spec.Provider.Region
	if in.Distances != nil {
		distance, known = in.Distances[region]
		if !known && region == in.Shoot.Spec.Region {
			return 0, true
		}
		return distance, known
	}
	distance = RegionDistance(region, in.Shoot.Spec.Region)
	if seed.Spec.Provider.Type != in.Shoot.Spec.Provider.Type {
		distance += providerPenalty
	}
	return distance, true
}

// markFar turns the verdicts of fitting seeds that the strategy left out.
func (d *Decision) markFar(in Input, near []Candidate) {
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if !v.Passed || slices.ContainsFunc(near, func(c Candidate) bool { return c.Seed.Name == v.Seed }) {
			continue
		}
		v.Passed, v.Filter = false, "region"
		switch {
		case isTesting(in.Shoot):
			v.Reason = fmt.Sprintf("its provider type is not %q", in.Shoot.Spec.Provider.Type)
		case in.Strategy == MinimalDistance:
			v.Reason = fmt.Sprintf("other seeds are nearer to region %q", in.Shoot.Spec.Region)
		default:
			v.Reason = fmt.Sprintf("it is not of provider type %q in region %q", in.Shoot.Spec.Provider.Type, in.Shoot.Spec.Region)
		}
		v.failures = []failure{{filter: v.Filter, reason: v.Reason, fix: regionFix(in, v.Seed)}}
	}
}

func regionFix(in Input, name string) string {
	for _, c := range in.Candidates {
		if c.Seed.Name == name && c.Seed.Spec.Provider.Type == in.Shoot.Spec.Provider.Type {
			return fmt.Sprintf("create the Shoot in region %q, or let the scheduler use the strategy %s", c.Seed.Spec.Provider.Region, MinimalDistance)
		}
	}
	return ""
}

// noneFits sums up the verdicts, most frequent filter first.
func noneFits(verdicts []Verdict, ifEmpty string) string {
	if len(verdicts) == 0 {
		return ifEmpty
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
	return fmt.Sprintf("none of the %d seeds fits: %s", len(verdicts), strings.Join(parts, ", "))
}

// SmallestChange names the least that would have to change for the Shoot to fit some seed, or "" if it fits already or
// no single seed can be made to fit by changes of the Shoot.
func (d Decision) SmallestChange() string {
	best, bestSeed := []failure(nil), ""
	for _, v := range d.Verdicts {
		if v.Passed {
			return ""
		}
		if slices.ContainsFunc(v.failures, func(f failure) bool { return f.fix == "" }) {
			continue
		}
		if best == nil || len(v.failures) < len(best) {
			best, bestSeed = v.failures, v.Seed
		}
	}
	if best == nil {
		return ""
	}
	var fixes []string
	for _, f := range best {
		fixes = append(fixes, f.fix)
	}
	return fmt.Sprintf("for seed %s: %s", bestSeed, strings.Join(fixes, ", and "))
}

func isTesting(s *corev1beta1.Shoot) bool {
	return s.Spec.Purpose != nil && *s.Spec.Purpose == corev1beta1.ShootPurposeTesting
}

func keep(candidates []Candidate, accept func(Candidate) bool) []Candidate {
	var kept []Candidate
	for _, c := range candidates {
		if accept(c) {
			kept = append(kept, c)
		}
	}
	return kept
}
