package chain

import (
	"fmt"
	"slices"
	"time"
)

// Retention configures how long backups are kept.
type Retention struct {
	// Full snapshots younger than this are kept. Default 7 days.
	Full time.Duration
	// Weekly keeps one full snapshot a week, the oldest of it, for this long. Default 4 weeks.
	Weekly time.Duration
	// Deltas are kept for this long, as long as the full snapshot that they extend is kept: every revision of this time
	// can be restored. Default 24 h.
	Deltas time.Duration
	// Chains is the number of newest chains that are kept with their deltas whatever their age, since a clock may be
	// wrong. Default 2.
	Chains int
}

// DefaultRetention keeps every revision of a day, every full snapshot of a week and one per week of four weeks.
func DefaultRetention() Retention {
	return Retention{Full: 7 * 24 * time.Hour, Weekly: 28 * 24 * time.Hour, Deltas: 24 * time.Hour, Chains: 2}
}

// Validate returns an error for the first invalid setting.
func (r Retention) Validate() error {
	switch {
	case r.Full < 0:
		return fmt.Errorf("--keep-full: must not be negative: %s", r.Full)
	case r.Weekly < 0:
		return fmt.Errorf("--keep-weekly: must not be negative: %s", r.Weekly)
	case r.Deltas < 0:
		return fmt.Errorf("--keep-deltas: must not be negative: %s", r.Deltas)
	case r.Chains < 1:
		return fmt.Errorf("--keep-chains: must be at least 1: %d", r.Chains)
	}
	return nil
}

// unusedAfter is how long objects that no chain needs are kept: a delta may wait for the full snapshot that is being
// uploaded, and people may want to look at what an old owner wrote late.
const unusedAfter = 24 * time.Hour

// week begins on Mondays; the zero time is one.
const week = 7 * 24 * time.Hour

// Deletion is an object that is no longer needed, and the reason.
type Deletion struct {
	Object Object
	Reason string
}

// Retain returns the objects that may be deleted, oldest first. They never include the chain of the newest verified
// full snapshot and the newest chains.
func Retain(objects []Object, claims []Claim, verified *Object, r Retention, now time.Time) []Deletion {
	owned, late := Owned(objects, claims)
	chains := Build(owned)
	weekly := firstOfWeeks(chains)
	keep := map[string]bool{}
	keepAll := func(objects []Object) {
		for _, o := range objects {
			keep[o.Name()] = true
		}
	}
	for i, c := range segments(chains) {
		switch age := now.Sub(c.Full.Created); {
		case i < r.Chains, verified != nil && c.Full.Name() == verified.Name():
			keepAll(c.Objects())
		case age < r.Full:
			keep[c.Full.Name()] = true
			if n := len(c.Deltas); n > 0 && now.Sub(c.Deltas[n-1].Created) < r.Deltas {
				keepAll(c.Deltas) // Restoring the younger ones requires the older ones.
			}
		case age < r.Weekly && weekly[c.Full.Name()]:
			keep[c.Full.Name()] = true
		}
	}
	inChain := map[string]bool{}
	for _, c := range chains {
		for _, o := range c.Objects() {
			inChain[o.Name()] = true
		}
	}
	var gone []Deletion
	for _, o := range owned {
		switch age := now.Sub(o.Created); {
		case keep[o.Name()]:
		case inChain[o.Name()]:
			gone = append(gone, Deletion{Object: o, Reason: "older than the retention"})
		case age >= unusedAfter:
			gone = append(gone, Deletion{Object: o, Reason: "extends no full snapshot"})
		}
	}
	for _, o := range late {
		if now.Sub(o.Created) >= unusedAfter {
			gone = append(gone, Deletion{Object: o, Reason: "written by an old owner after a newer epoch had begun"})
		}
	}
	slices.SortFunc(gone, func(a, b Deletion) int { return compareObjects(a.Object, b.Object) })
	return gone
}

// segments returns the chains, newest full snapshot first, with their deltas up to the next full snapshot only: from
// there on that one is the shorter way.
func segments(chains []Chain) []Chain {
	sorted := slices.Clone(chains)
	slices.SortFunc(sorted, func(a, b Chain) int { return compareObjects(b.Full, a.Full) })
	for i := range sorted[:max(len(sorted)-1, 0)] {
		newer, older := sorted[i].Full, &sorted[i+1]
		if newer.Epoch != older.Full.Epoch {
			continue
		}
		if cut, ok := older.Until(newer.Last); ok {
			older.Deltas = cut.Deltas
		}
	}
	return sorted
}

// firstOfWeeks are the names of the oldest full snapshot of each week.
func firstOfWeeks(chains []Chain) map[string]bool {
	oldest := map[time.Time]Object{}
	for _, c := range chains {
		monday := c.Full.Created.Truncate(week)
		if o, known := oldest[monday]; !known || c.Full.Created.Before(o.Created) {
			oldest[monday] = c.Full
		}
	}
	names := map[string]bool{}
	for _, o := range oldest {
		names[o.Name()] = true
	}
	return names
}
