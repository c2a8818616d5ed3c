package unit

import (
	"slices"
	"strings"
)

// waits returns, for each of the units that are started together, the others that it has to wait for. Edges to units
// outside are dropped. An edge that would close a cycle is dropped too, as systemd does: a machine that starts in a
// doubtful order can be repaired, one that does not start cannot. The result does not depend on the order of specs.
func waits(specs []*Spec) map[string][]string {
	specs = slices.Clone(specs)
	slices.SortFunc(specs, func(a, b *Spec) int { return strings.Compare(a.Name, b.Name) })
	included := map[string]bool{}
	for _, spec := range specs {
		included[spec.Name] = true
	}
	result := map[string][]string{}
	for _, spec := range specs {
		for _, before := range spec.After {
			if included[before] && before != spec.Name && !slices.Contains(result[spec.Name], before) &&
				!reaches(result, before, spec.Name, map[string]bool{}) {
				result[spec.Name] = append(result[spec.Name], before)
			}
		}
	}
	return result
}

func reaches(edges map[string][]string, from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for _, next := range edges[from] {
		if !seen[next] && reaches(edges, next, to, seen) {
			return true
		}
	}
	return false
}
