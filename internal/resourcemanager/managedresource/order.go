package managedresource

import (
	"cmp"
	"slices"

	"helm.sh/helm/v3/pkg/releaseutil"
)

// kindRank is the place of a kind in the order of installation; kinds that are not in it come last.
var kindRank = func() map[string]int {
	rank := make(map[string]int, len(releaseutil.InstallOrder))
	for i, kind := range releaseutil.InstallOrder {
		rank[kind] = i
	}
	return rank
}()

func rankOf(kind string) int {
	if r, ok := kindRank[kind]; ok {
		return r
	}
	return len(kindRank)
}

// inOrder groups objects for application: groups one after the other, objects of a group in any order.
func inOrder(objects []*object) [][]*object {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *object) int {
		return cmp.Or(cmp.Compare(rankOf(a.ref.Kind), rankOf(b.ref.Kind)), cmp.Compare(a.ref.Kind, b.ref.Kind))
	})
	var groups [][]*object
	for i, o := range sorted {
		if i == 0 || o.ref.Kind != sorted[i-1].ref.Kind {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], o)
	}
	return groups
}
