package chain

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // A Monday.

func full(last int64, hours ...int) Object         { return object(1, Full, 1, last, hours) }
func delta(first, last int64, hours ...int) Object { return object(1, Delta, first, last, hours) }

func object(epoch int64, kind Kind, first, last int64, hours []int) Object {
	o := Object{Epoch: epoch, Kind: kind, First: first, Last: last, Created: start}
	for _, h := range hours {
		o.Created = o.Created.Add(time.Duration(h) * time.Hour)
	}
	return o
}

func inEpoch(epoch int64, o Object) Object {
	o.Epoch = epoch
	return o
}

func TestNamesRoundTripAndSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var objects []Object
	for range 1000 {
		o := Object{Epoch: 1 + r.Int64N(1000), Kind: Delta, First: 1 + r.Int64N(1<<62),
			Created: start.Add(time.Duration(r.Int64N(1e9)) * time.Millisecond)}
		o.Last = o.First + r.Int64N(1000)
		if r.IntN(3) == 0 {
			o.Kind, o.First = Full, 1
		}
		got, ok := ParseName(o.Name())
		if !ok || got != o {
			t.Fatalf("ParseName(%q) = %+v, %t, want %+v", o.Name(), got, ok, o)
		}
		objects = append(objects, o)
	}
	slices.SortFunc(objects, func(a, b Object) int {
		switch {
		case a.Epoch != b.Epoch:
			return int(a.Epoch - b.Epoch)
		case a.First != b.First && a.First < b.First:
			return -1
		case a.First != b.First:
			return 1
		case a.Last < b.Last:
			return -1
		}
		return 1
	})
	if !slices.IsSortedFunc(objects, func(a, b Object) int { return cmpString(a.Name(), b.Name()) }) {
		t.Error("names do not sort by epoch and revisions")
	}
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestParseNameRefuses(t *testing.T) {
	good := delta(5, 7).Name()
	for _, name := range []string{
		"", "x", good + ".tmp", "a/" + good, ClaimName(1), good[1:],
		"0000000000-0000000000000000005-0000000000000000007-delta-20260302T000000.000Z.zst", // Epoch 0.
		"0000000001-0000000000000000008-0000000000000000007-delta-20260302T000000.000Z.zst", // Last before first.
		"0000000001-0000000000000000002-0000000000000000007-full-20260302T000000.000Z.zst",  // A full snapshot begins at 1.
		"0000000001-0000000000000000005-9999999999999999999-delta-20260302T000000.000Z.zst", // No int64.
		"0000000001-0000000000000000005-0000000000000000007-delta-20261302T000000.000Z.zst", // No date.
	} {
		if o, ok := ParseName(name); ok {
			t.Errorf("ParseName(%q) = %+v", name, o)
		}
	}
}

func TestClaimNames(t *testing.T) {
	if epoch, ok := ParseClaimName(ClaimName(17)); !ok || epoch != 17 {
		t.Errorf("ParseClaimName = %d, %t", epoch, ok)
	}
	for _, name := range []string{"epochs/", "epochs/1", "epochs/0000000000", "epochs/000000000x", "0000000001"} {
		if _, ok := ParseClaimName(name); ok {
			t.Errorf("%q is no claim", name)
		}
	}
}

func TestBuild(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []Object
		want    []Chain
	}{
		"nothing":         {},
		"only deltas":     {objects: []Object{delta(2, 3)}},
		"a full snapshot": {objects: []Object{full(5)}, want: []Chain{{Full: full(5)}}},
		"deltas without a gap": {objects: []Object{delta(8, 9), full(5), delta(6, 7)}, want: []Chain{{Full: full(5),
			Deltas: []Object{delta(6, 7), delta(8, 9)}}}},
		"a gap ends the chain": {objects: []Object{full(5), delta(6, 7), delta(9, 9)}, want: []Chain{{Full: full(5),
			Deltas: []Object{delta(6, 7)}}}},
		"a delta spans the full snapshot": {objects: []Object{full(5), delta(4, 7)},
			want: []Chain{{Full: full(5), Deltas: []Object{delta(4, 7)}}}},
		"the longest of repeated uploads": {objects: []Object{full(5), delta(6, 7), delta(6, 9), delta(8, 9)},
			want: []Chain{{Full: full(5), Deltas: []Object{delta(6, 9)}}}},
		"two full snapshots share deltas": {objects: []Object{full(5), delta(6, 7), full(7, 1), delta(8, 9)},
			want: []Chain{{Full: full(7, 1), Deltas: []Object{delta(8, 9)}}, {Full: full(5), Deltas: []Object{delta(6, 7),
				delta(8, 9)}}}},
		"epochs do not mix": {objects: []Object{full(5), delta(6, 7), inEpoch(2, delta(8, 9))},
			want: []Chain{{Full: full(5), Deltas: []Object{delta(6, 7)}}}},
		"the newer epoch first": {objects: []Object{full(50), inEpoch(2, full(5))},
			want: []Chain{{Full: inEpoch(2, full(5))}, {Full: full(50)}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Build(tc.objects)); diff != "" {
				t.Errorf("Build mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBuildReachesWhatCanBeReached compares chains with a simple search over single revisions.
func TestBuildReachesWhatCanBeReached(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		objects := []Object{full(1 + r.Int64N(10))}
		for range r.IntN(15) {
			first := 1 + r.Int64N(30)
			objects = append(objects, delta(first, first+r.Int64N(5)))
		}
		r.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		c := Build(objects)[0]
		want := c.Full.Last
		for again := true; again; {
			again = false
			for _, o := range objects {
				if o.Kind == Delta && o.First <= want+1 && o.Last > want {
					want, again = o.Last, true
				}
			}
		}
		if c.Last() != want {
			t.Fatalf("chain of %v reaches %d, want %d", objects, c.Last(), want)
		}
		last := c.Full.Last
		for _, d := range c.Deltas {
			if d.First > last+1 || d.Last <= last {
				t.Fatalf("chain %v has a gap or a useless delta", c)
			}
			last = d.Last
		}
	}
}

func TestOwned(t *testing.T) {
	at := func(r int64) *int64 { return &r }
	objects := []Object{full(5), delta(6, 7), delta(8, 9), inEpoch(2, full(8))}
	owned, late := Owned(objects, []Claim{{Epoch: 1, Revision: at(0)}, {Epoch: 2, Revision: at(7)}})
	if diff := cmp.Diff([]Object{full(5), delta(6, 7), inEpoch(2, full(8))}, owned); diff != "" {
		t.Errorf("owned (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Object{delta(8, 9)}, late); diff != "" {
		t.Errorf("late (-want +got):\n%s", diff)
	}
	if owned, _ := Owned(objects, []Claim{{Epoch: 2}}); len(owned) != len(objects) {
		t.Error("a claim without a revision drops objects")
	}
}

func TestSelect(t *testing.T) {
	objects := []Object{full(5), delta(6, 7, 1), full(7, 2), delta(8, 9, 3), inEpoch(2, full(8, 5)), inEpoch(2, delta(9,
		12, 6))}
	chains := Build(objects)
	for name, tc := range map[string]struct {
		target Target
		want   []Object
	}{
		"the newest": {want: []Object{inEpoch(2, full(8, 5)), inEpoch(2, delta(9, 12, 6))}},
		"a revision within a delta": {Target{Revision: 10}, []Object{inEpoch(2, full(8, 5)), inEpoch(2, delta(9,
			12, 6))}},
		"a revision of the older epoch only": {Target{Revision: 7}, []Object{full(7, 2)}},
		"a revision before a full snapshot":  {Target{Revision: 6}, []Object{full(5), delta(6, 7, 1)}},
		"a revision that is not there":       {Target{Revision: 13}, nil},
		"a time":                             {Target{Time: start.Add(90 * time.Minute)}, []Object{full(5), delta(6, 7, 1)}},
		"a time before everything":           {Target{Time: start.Add(-time.Hour)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := Select(chains, tc.target)
			if ok != (tc.want != nil) {
				t.Fatalf("found %t: %v", ok, c)
			}
			if diff := cmp.Diff(tc.want, c.Objects()); ok && diff != "" {
				t.Errorf("Select mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
