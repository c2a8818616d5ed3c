package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// comparison drops seeds that fit, because others are better. It never drops all, but it may fail.
type comparison struct {
	name string
	// keep returns the better ones of at least one seed, and why each of the others is dropped.
	keep func(in Input, left []Candidate) (kept []Candidate, reason func(Candidate) string, err error)
}

// comparisons in their order. Behind them, the seed with the fewest Shoots is chosen.
var comparisons = []comparison{
	{"zone-selection", preferZones},
	{"distance", keepNearest},
}

// preferZones drops the seeds that prefer Shoots in their own zones, if this is none and others are left.
func preferZones(in Input, left []Candidate) ([]Candidate, func(Candidate) string, error) {
	zones := zonesOfPools(in.Shoot)
	if len(zones) == 0 || toleratesZoneFailure(in.Shoot) || len(controlPlaneZones(in.Shoot)) > 0 {
		return left, nil, nil
	}
	var kept []Candidate
	for _, c := range left {
		if zoneSelection(c.Seed) != corev1beta1.ZoneSelectionPrefer || shareZone(zones, c.Seed.Spec.Provider.Zones) {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		return left, nil, nil
	}
	return kept, func(c Candidate) string {
		return fmt.Sprintf("it prefers Shoots with workers in its zones (%s), the Shoot's are in %s; other seeds fit better",
			list(c.Seed.Spec.Provider.Zones), list(zones))
	}, nil
}

// keepNearest keeps the seeds at the smallest distance by the strategy MinimalDistance. By SameRegion, and for test
// clusters, all that fit are equally near.
func keepNearest(in Input, left []Candidate) ([]Candidate, func(Candidate) string, error) {
	if in.Strategy != MinimalDistance || isTesting(in.Shoot) {
		return left, nil, nil
	}
	if in.DistancesError != nil {
		return nil, nil, in.DistancesError
	}
	distance := in.configuredDistance
	if !slices.ContainsFunc(left, func(c Candidate) bool { _, known := distance(c.Seed); return known }) {
		distance = in.distanceByName
	}
	var kept []Candidate
	best := 0
	for _, c := range left {
		d, known := distance(c.Seed)
		if !known || len(kept) > 0 && d > best {
			continue
		}
		if len(kept) == 0 || d < best {
			kept, best = nil, d
		}
		kept = append(kept, c)
	}
	return kept, func(c Candidate) string {
		d, known := distance(c.Seed)
		if !known {
			return fmt.Sprintf("no distance configured from region %q to %q",
				in.Shoot.Spec.Region, c.Seed.Spec.Provider.Region)
		}
		return fmt.Sprintf("its distance from region %q is %d, that of other seeds is %d", in.Shoot.Spec.Region, d, best)
	}, nil
}

// configuredDistance of a seed is the operator's; a seed in the Shoot's region is at 0 unless he says otherwise.
func (in Input) configuredDistance(seed *corev1beta1.Seed) (distance int, known bool) {
	region := seed.Spec.Provider.Region
	if in.Distances == nil {
		return 0, false
	}
	distance, known = in.Distances[region]
	return distance, known || region == in.Shoot.Spec.Region
}

// distanceByName of a seed depends on the names of regions and on the provider types.
func (in Input) distanceByName(seed *corev1beta1.Seed) (distance int, known bool) {
	distance = RegionDistance(seed.Spec.Provider.Region, in.Shoot.Spec.Region)
	if seed.Spec.Provider.Type != in.Shoot.Spec.Provider.Type {
		distance += providerPenalty
	}
	return distance, true
}

// zonesOfPools are the zones in which a Shoot has workers, each once.
func zonesOfPools(shoot *corev1beta1.Shoot) []string {
	var zones []string
	for i := range shoot.Spec.Provider.Workers {
		for _, zone := range shoot.Spec.Provider.Workers[i].Zones {
			if !slices.Contains(zones, zone) {
				zones = append(zones, zone)
			}
		}
	}
	return zones
}

func controlPlaneZones(shoot *corev1beta1.Shoot) []string {
	if shoot.Spec.ControlPlane == nil {
		return nil
	}
	return shoot.Spec.ControlPlane.Zones
}

func toleratesZoneFailure(shoot *corev1beta1.Shoot) bool {
	control := shoot.Spec.ControlPlane
	return control != nil && control.HighAvailability != nil &&
		control.HighAvailability.FailureTolerance.Type == corev1beta1.FailureToleranceTypeZone
}

// zoneSelection is the mode in which a seed chooses by zones, or "".
func zoneSelection(seed *corev1beta1.Seed) corev1beta1.ZoneSelectionMode {
	if seed.Spec.Settings == nil || seed.Spec.Settings.ZoneSelection == nil {
		return ""
	}
	return seed.Spec.Settings.ZoneSelection.Mode
}

func shareZone(a, b []string) bool {
	return slices.ContainsFunc(a, func(zone string) bool { return slices.Contains(b, zone) })
}

// list is for people.
func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
