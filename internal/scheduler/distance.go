package scheduler

import "strings"

// Weights of the distance between region names, as documented for the strategy MinimalDistance.
const (
	editWeight             = 2 // Per letter that differs.
	otherOrientation       = 2 // Both names have an orientation, and they differ.
	oneSidedOrientation    = 1 // Just one of the names has an orientation.
	providerPenalty        = 2 // The provider types differ.
	orientationPlaceholder = ":"
)

// orientations in the order in which names are searched for them.
var orientations = []string{"north", "south", "east", "west", "central"}

// RegionDistance estimates the distance between two regions from their names: eu-west-1 and eu-central-1 are nearer to
// each other than to us-east-1. It is symmetric, and 0 only for equal names.
func RegionDistance(a, b string) int {
	baseA, orientationA := splitOrientation(a)
	baseB, orientationB := splitOrientation(b)
	distance := editWeight * levenshtein(baseA, baseB)
	switch {
	case orientationA == orientationB:
	case orientationA != "" && orientationB != "":
		distance += otherOrientation
	default:
		distance += oneSidedOrientation
	}
	return distance
}

func splitOrientation(region string) (base, orientation string) {
	for _, o := range orientations {
		if strings.Contains(region, o) {
			return strings.Replace(region, o, orientationPlaceholder, 1), o
		}
	}
	return region, ""
}

// levenshtein counts insertions, deletions and substitutions of characters.
func levenshtein(from, to string) int {
	a, b := []rune(from), []rune(to)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
