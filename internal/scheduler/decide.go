package scheduler

import (
	"fmt"
	"math"
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

// Decide chooses the seed for a Shoot.
func Decide(in Input) Decision {
	d := Decision{TiedSeeds: []string{}, Verdicts: []Verdict{}}
	var fitting []Candidate
	domains := defaultDomains(in.Candidates)
	for _, c := range in.Candidates {
		v := Verdict{Seed: c.Seed.Name, Passed: true}
		for _, f := range filters {
			if reason := f.check(in, c, domains); reason != "" {
				v.Passed, v.Filter, v.Reason = false, f.name, reason
				break
			}
		}
		if v.Passed {
			fitting = append(fitting, c)
		}
		d.Verdicts = append(d.Verdicts, v)
	}
	if len(fitting) == 0 {
		d.Error = noneFits(d.Verdicts)
		return d
	}

	near := d.keepNearest(in, fitting)
	fewest := slices.MinFunc(near, func(a, b Candidate) int { return a.Shoots - b.Shoots })
	d.Seed = fewest.Seed.Name // MinFunc returns the first of equal ones.
	for _, c := range near {
		if c.Shoots == fewest.Shoots {
			d.TiedSeeds = append(d.TiedSeeds, c.Seed.Name)
		}
	}
	return d
}

// keepNearest returns the fitting candidates at the smallest distance and turns the verdicts of the others. The strategy
// SameRegion has its say in the filter of regions: all that fit are equally near.
func (d *Decision) keepNearest(in Input, fitting []Candidate) []Candidate {
	if in.Strategy != MinimalDistance || isTesting(in.Shoot) {
		return fitting
	}
	best := math.MaxInt
	var near []Candidate
	distances := make(map[string]int, len(fitting))
	for _, c := range fitting {
		distance, _ := in.distance(c.Seed) // Known, or the filter of regions would have refused it.
		distances[c.Seed.Name] = distance
		if distance < best {
			best, near = distance, nil
		}
		if distance == best {
			near = append(near, c)
		}
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if distance := distances[v.Seed]; v.Passed && distance > best {
			v.Passed, v.Filter = false, filterRegion
			v.Reason = fmt.Sprintf("other seeds are nearer to region %q: its distance is %d, theirs %d", in.Shoot.Spec.Region, distance, best)
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
	return fmt.Sprintf("none of the %d seeds fits: %s", len(verdicts), strings.Join(parts, ", "))
}

func isTesting(s *corev1beta1.Shoot) bool {
	return s.Spec.Purpose != nil && *s.Spec.Purpose == corev1beta1.ShootPurposeTesting
}
