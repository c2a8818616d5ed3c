package fence

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

const fenceTime = 5 * time.Minute

func TestDecide(t *testing.T) {
	at := func(w Witness, d time.Duration) map[Witness]time.Duration { return map[Witness]time.Duration{w: d} }
	newer := &Successor{Owner: Owner{Epoch: 3, Holder: "b"}, Witness: Bucket, Time: time.Unix(0, 0)}
	for name, tc := range map[string]struct {
		facts  Facts
		want   Verdict
		reason string
	}{
		"no witness has answered yet": {facts: Facts{Now: time.Minute}, want: Wait, reason: "waiting until"},
		"no witness has answered for a long time": {
			facts: Facts{Now: time.Hour}, want: Wait, reason: "has confirmed epoch 2 for 1h0m0s",
		},
		"the bucket has confirmed it": {facts: Facts{
			Now: time.Hour, Confirmed: at(Bucket, time.Hour-time.Minute),
		}, want: Run},
		"the garden has confirmed it": {facts: Facts{
			Now: time.Hour, Confirmed: at(Garden, time.Hour-time.Minute),
		}, want: Run},
		"the last moment": {facts: Facts{Now: fenceTime - 1, Confirmed: at(Garden, 0)}, want: Run},
		"the moment after": {
			facts: Facts{Now: fenceTime, Confirmed: at(Garden, 0)}, want: Fenced, reason: "for 5m0s (at most 5m0s)",
		},
		"both have not answered for a long time": {facts: Facts{
			Now: time.Hour, Confirmed: map[Witness]time.Duration{Garden: 0, Bucket: time.Minute},
		}, want: Fenced, reason: "59m0s"},
		"one of them is enough": {facts: Facts{
			Now: time.Hour, Confirmed: map[Witness]time.Duration{Garden: 0, Bucket: time.Hour},
		}, want: Run},
		"a newer owner, though confirmed": {
			facts: Facts{Now: 1, Confirmed: at(Garden, 0), Successor: newer}, want: Superseded, reason: `"b" owns epoch 3`,
		},
		"an older owner": {facts: Facts{
			Now: 1, Confirmed: at(Garden, 0), Successor: &Successor{Owner: Owner{Epoch: 1, Holder: "b"}},
		}, want: Run},
		"another holder of the epoch": {facts: Facts{
			Now: 1, Confirmed: at(Garden, 0), Successor: &Successor{Owner: Owner{Epoch: 2, Holder: "b"}, Witness: Bucket},
		}, want: Superseded},
		"a newer owner with an unknown name": {facts: Facts{Successor: &Successor{
			Owner: Owner{Epoch: 3}, Witness: Garden,
		}}, want: Superseded, reason: "the garden shows that another seed owns epoch 3"},
		"without a bucket":                {facts: Facts{Now: time.Hour, Alone: true}, want: Run},
		"without a bucket, a newer owner": {facts: Facts{Alone: true, Successor: newer}, want: Superseded},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Owner, tc.facts.FenceTime = Owner{Epoch: 2, Holder: "a"}, fenceTime
			if got := Decide(tc.facts); got.Verdict != tc.want || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("Decide() = %+v, want %s with %q", got, tc.want, tc.reason)
			}
		})
	}
}

// TestNoTwoOwners simulates two owners with random outages of the witnesses, pauses, jumps of the wall clock and
// restarts. The second owner serves a fence time after it has claimed the next epoch, as in the protocol. From then on
// the first one must not run. As long as a witness is reachable and nobody else has claimed, it must run.
func TestNoTwoOwners(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		wall := &wallClock{}
		now := time.Duration(0)
		path := filepath.Join(t.TempDir(), "superseded")
		start := func() *Guard {
			g, err := New(Owner{Epoch: 1, Holder: "a"}, fenceTime, false, path, func() time.Duration { return now }, wall)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		g, claimed, claim := start(), time.Duration(-1), time.Duration(random.Int64N(int64(time.Hour)))
		reachable, confirmed := map[Witness]bool{}, time.Duration(-1)
		for now < 2*time.Hour {
			now += time.Duration(random.Int64N(int64(20 * time.Second)))
			switch random.IntN(40) {
			case 0: // Both processes of the container, or the machine, are paused.
				now += time.Duration(random.Int64N(int64(20 * time.Minute)))
			case 1:
				wall.jump(time.Duration(random.Int64N(int64(1000*time.Hour))) - 500*time.Hour)
			case 2:
				g, confirmed = start(), -1
			case 3, 4:
				reachable[Bucket] = !reachable[Bucket]
			case 5, 6:
				reachable[Garden] = !reachable[Garden]
			}
			if claimed < 0 && now >= claim {
				claimed = now
			}
			for _, w := range []Witness{Bucket, Garden} {
				if !reachable[w] || random.IntN(3) > 0 {
					continue
				}
				asked, owner := g.Now(), Owner{Epoch: 1, Holder: "a"}
				if claimed >= 0 {
					owner = Owner{Epoch: 2, Holder: "b"}
				}
				now += time.Duration(random.Int64N(int64(10 * time.Second))) // The response takes a while.
				if err := g.Confirm(w, owner, asked); err != nil {
					t.Fatal(err)
				}
				if owner.Epoch == 1 {
					confirmed = max(confirmed, asked)
				}
			}
			d := g.Decision()
			if claimed >= 0 && now >= claimed+fenceTime && d.Verdict == Run {
				t.Fatalf("seed %d: the first owner runs %s after the second one has claimed", seed, now-claimed)
			}
			if claimed < 0 && confirmed >= 0 && now < confirmed+fenceTime && d.Verdict != Run {
				t.Fatalf("seed %d: %+v although epoch 1 was confirmed %s before", seed, d, now-confirmed)
			}
			if d.Verdict == Superseded && claimed < 0 {
				t.Fatalf("seed %d: superseded by nobody", seed)
			}
		}
	}
}

// wallClock may be set at any time.
type wallClock struct {
	clock.RealClock
	offset time.Duration
}

func (w *wallClock) Now() time.Time       { return time.Now().Add(w.offset) }
func (w *wallClock) jump(d time.Duration) { w.offset += d }

func TestSupersededIsFinal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "superseded")
	open := func(o Owner) *Guard {
		t.Helper()
		g, err := New(o, fenceTime, false, path, Monotonic, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := Owner{Epoch: 1, Holder: "a"}
	g := open(first)
	if err := g.Confirm(Garden, Owner{Epoch: 1}, g.Now()); err != nil {
		t.Fatal(err)
	}
	if d := g.Decision(); d.Verdict != Run {
		t.Errorf("confirmed, but %+v", d)
	}
	if err := g.Confirm(Garden, Owner{Epoch: 2}, g.Now()); err != nil {
		t.Fatal(err)
	}
	_ = g.Confirm(Garden, Owner{Epoch: 1}, g.Now()) // By a client that does not know yet.
	for _, g := range []*Guard{g, open(first)} {
		if d := g.Decision(); d.Verdict != Superseded {
			t.Errorf("superseded, but %+v", d)
		}
	}
	// The first owner comes back as the owner of a later epoch.
	g = open(Owner{Epoch: 3, Holder: "a"})
	if err := g.Confirm(Bucket, Owner{Epoch: 3, Holder: "a"}, g.Now()); err != nil || g.Decision().Verdict != Run {
		t.Errorf("%+v, %v", g.Decision(), err)
	}
	if err := g.Confirm(Garden, Owner{Epoch: 2}, g.Now()); err == nil {
		t.Error("an old epoch is confirmed")
	}
}
