package chain

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// history has the objects of a year of daily full snapshots and hourly deltas, without deletions.
func history(days int) []Object {
	var objects []Object
	revision := int64(1)
	for day := range days {
		objects = append(objects, full(revision, day*24))
		for hour := range 24 {
			objects = append(objects, delta(revision+1, revision+10, day*24+hour, 1))
			revision += 10
		}
	}
	return objects
}

func TestRetainOfAYear(t *testing.T) {
	objects := history(365)
	now := start.AddDate(0, 0, 365)
	gone := map[string]bool{}
	for _, d := range Retain(objects, nil, nil, DefaultRetention(), now) {
		gone[d.Object.Name()] = true
	}
	var fulls []int
	deltas := 0
	for _, o := range objects {
		switch {
		case gone[o.Name()]:
		case o.Kind == Full:
			fulls = append(fulls, int(now.Sub(o.Created)/(24*time.Hour)))
		default:
			deltas++
			if now.Sub(o.Created) > 3*24*time.Hour {
				t.Errorf("%v is kept", o)
			}
		}
	}
	// Days of age: four weeks' Mondays, then each of the last seven days. Day 365 of the history is a Tuesday.
	if want := []int{22, 15, 8, 6, 5, 4, 3, 2, 1}; !slices.Equal(fulls, want) {
		t.Errorf("ages of the kept full snapshots are %v days, want %v", fulls, want)
	}
	if deltas < 24 || deltas > 72 {
		t.Errorf("%d deltas are kept", deltas)
	}
}

func TestRetainKeepsTheVerifiedChain(t *testing.T) {
	objects := history(100)
	old := objects[25*3]
	for _, d := range Retain(objects, nil, &old, DefaultRetention(), start.AddDate(1, 0, 0)) {
		if d.Object.Name() == old.Name() || d.Object.First > old.Last && d.Object.Last <= old.Last+240 &&
			d.Object.Kind == Delta {
			t.Errorf("%v is deleted", d.Object)
		}
	}
}

func TestRetainOfObjectsWithoutUse(t *testing.T) {
	seven := int64(7)
	claims := []Claim{{Epoch: 2, Revision: &seven}}
	objects := []Object{full(5), delta(6, 7), delta(8, 9), inEpoch(2, full(8)), inEpoch(2, delta(20, 21))}
	if gone := Retain(objects, claims, nil, DefaultRetention(), start.Add(time.Hour)); len(gone) != 0 {
		t.Errorf("an hour later %v are deleted", gone)
	}
	gone := Retain(objects, claims, nil, DefaultRetention(), start.Add(25*time.Hour))
	if len(gone) != 2 || gone[0].Object != delta(8, 9) || gone[1].Object != inEpoch(2, delta(20, 21)) {
		t.Errorf("a day later %v are deleted", gone)
	}
}

// TestRetainIsSafe checks with random listings and any clock: the newest restorable revision stays restorable, and a
// second pass deletes nothing more.
func TestRetainIsSafe(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		var objects []Object
		revision := int64(1)
		for i := range 1 + r.IntN(60) {
			switch r.IntN(6) {
			case 0:
				objects = append(objects, full(revision, i*r.IntN(30)))
			case 1:
				revision += 2 // A gap.
			default:
				next := revision + 1 + r.Int64N(5)
				objects = append(objects, delta(revision+1, next, i*r.IntN(30)))
				revision = next
			}
		}
		before := Build(objects)
		if len(before) == 0 {
			continue
		}
		verified := before[r.IntN(len(before))].Full
		now := start.Add(time.Duration(r.IntN(100000)-1000) * time.Hour)
		kept := slices.Clone(objects)
		for _, d := range Retain(objects, nil, &verified, DefaultRetention(), now) {
			kept = Without(kept, d.Object)
		}
		after := Build(kept)
		newest := segments(before)[0]
		reached := slices.ContainsFunc(after, func(c Chain) bool {
			return c.Full == newest.Full &&
				c.Last() == newest.Last()
		})
		if !reached || !slices.Contains(kept, verified) {
			t.Fatalf("of %v at %v only %v is kept", objects, now, kept)
		}
		if again := Retain(kept, nil, &verified, DefaultRetention(), now); len(again) != 0 {
			t.Fatalf("a second pass deletes %v", again)
		}
	}
}

func TestRetentionValidate(t *testing.T) {
	if err := DefaultRetention().Validate(); err != nil {
		t.Error(err)
	}
	for _, r := range []Retention{{Full: -1, Chains: 1}, {Weekly: -1, Chains: 1}, {Deltas: -1, Chains: 1}, {}} {
		if r.Validate() == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}
