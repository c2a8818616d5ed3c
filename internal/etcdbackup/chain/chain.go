package chain

import (
	"cmp"
	"slices"
	"time"
)

// Chain is a full snapshot and the deltas that extend it, ordered, without a gap between revisions.
type Chain struct {
	Full   Object   `json:"full"`
	Deltas []Object `json:"deltas,omitempty"`
}

// Last is the last revision that the chain restores.
func (c Chain) Last() int64 {
	if len(c.Deltas) == 0 {
		return c.Full.Last
	}
	return c.Deltas[len(c.Deltas)-1].Last
}

// Objects are the full snapshot and the deltas.
func (c Chain) Objects() []Object {
	return append([]Object{c.Full}, c.Deltas...)
}

// Size is the number of bytes in the store.
func (c Chain) Size() int64 {
	var size int64
	for _, o := range c.Objects() {
		size += o.Size
	}
	return size
}

// Until returns the part of the chain that is needed to restore a revision, and whether the chain reaches it.
func (c Chain) Until(revision int64) (Chain, bool) {
	if revision < c.Full.Last || revision > c.Last() {
		return Chain{}, false
	}
	cut := Chain{Full: c.Full}
	for _, d := range c.Deltas {
		if cut.Last() >= revision {
			break
		}
		cut.Deltas = append(cut.Deltas, d)
	}
	return cut, true
}

// UntilTime returns the part of the chain that was written up to a time. Deltas are whole: the exact time within one
// is not known from its name.
func (c Chain) UntilTime(t time.Time) (Chain, bool) {
	if c.Full.Created.After(t) {
		return Chain{}, false
	}
	cut := Chain{Full: c.Full}
	for _, d := range c.Deltas {
		if d.Created.After(t) {
			break
		}
		cut.Deltas = append(cut.Deltas, d)
	}
	return cut, true
}

// Owned drops the objects that owners wrote after a newer epoch had begun, and returns them as late. Without claims all
// objects are kept.
func Owned(objects []Object, claims []Claim) (owned, late []Object) {
	for _, o := range objects {
		if isLate(o, claims) {
			late = append(late, o)
		} else {
			owned = append(owned, o)
		}
	}
	return owned, late
}

func isLate(o Object, claims []Claim) bool {
	for _, c := range claims {
		if c.Epoch > o.Epoch && c.Revision != nil && o.Last > *c.Revision {
			return true
		}
	}
	return false
}

// Newest returns the claim with the highest epoch.
func Newest(claims []Claim) (Claim, bool) {
	if len(claims) == 0 {
		return Claim{}, false
	}
	return slices.MaxFunc(claims, func(a, b Claim) int { return cmp.Compare(a.Epoch, b.Epoch) }), true
}

// Build returns every chain in a listing, the most useful first: by epoch, then by the revision that it reaches, then
// with the fewest deltas. Deltas of an epoch extend full snapshots of the same epoch only.
//
// The ranges of deltas may overlap, since an upload that seemed to have failed is repeated with more in it; of those
// that fit the longest is taken.
func Build(objects []Object) []Chain {
	deltas := map[int64][]Object{}
	for _, o := range objects {
		if o.Kind == Delta {
			deltas[o.Epoch] = append(deltas[o.Epoch], o)
		}
	}
	for _, d := range deltas {
		slices.SortFunc(d, func(a, b Object) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), a.Created.Compare(b.Created))
		})
	}
	var chains []Chain
	for _, o := range objects {
		if o.Kind == Full {
			chains = append(chains, Chain{Full: o, Deltas: extend(o.Last, deltas[o.Epoch])})
		}
	}
	slices.SortStableFunc(chains, func(a, b Chain) int {
		return cmp.Or(cmp.Compare(b.Full.Epoch, a.Full.Epoch), cmp.Compare(b.Last(), a.Last()),
			cmp.Compare(len(a.Deltas), len(b.Deltas)), compareObjects(b.Full, a.Full))
	})
	return chains
}

// extend walks over deltas, which are sorted by first revision, as far as there is no gap.
func extend(last int64, deltas []Object) []Object {
	var taken []Object
	for {
		// Deltas that begin at most one revision after last fit; the one that reaches farthest leaves the fewest steps.
		fitting, _ := slices.BinarySearchFunc(deltas, last+2, func(o Object, first int64) int {
			return cmp.Compare(o.First,
				first)
		})
		var best *Object
		for i := range deltas[:fitting] {
			if d := &deltas[i]; d.Last > last && (best == nil || d.Last > best.Last) {
				best = d
			}
		}
		if best == nil {
			return taken
		}
		taken, last = append(taken, *best), best.Last
		deltas = deltas[fitting:] // None of those before reaches farther than best.
	}
}

// Select returns the chain to restore: the best chain that reaches the target.
func Select(chains []Chain, target Target) (Chain, bool) {
	for _, c := range chains {
		switch {
		case target.Revision > 0:
			if cut, ok := c.Until(target.Revision); ok {
				return nearest(chains, cut, target.Revision), true
			}
		case !target.Time.IsZero():
			if cut, ok := c.UntilTime(target.Time); ok {
				return cut, true
			}
		default:
			return c, true
		}
	}
	return Chain{}, false
}

// nearest prefers, within the epoch of a chain that reaches the revision, the one with the fewest deltas.
func nearest(chains []Chain, best Chain, revision int64) Chain {
	for _, c := range chains {
		if cut, ok := c.Until(revision); ok && c.Full.Epoch == best.Full.Epoch && len(cut.Deltas) < len(best.Deltas) {
			best = cut
		}
	}
	return best
}

// Target is the point to restore. The zero value is the newest one.
type Target struct {
	// Revision to restore up to and including; 0 for no bound.
	Revision int64
	// Time up to which backups count; zero for no bound.
	Time time.Time
}

// Without returns objects without one, compared by name.
func Without(objects []Object, bad Object) []Object {
	name := bad.Name()
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return o.Name() == name })
}
