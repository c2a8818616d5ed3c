package seedauthorizer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// TestGraphForgetsNothingAndKeepsNothing: after any sequence of changes the graph is the same as one made from the
// remaining objects.
func TestGraphForgetsNothingAndKeepsNothing(t *testing.T) {
	type place struct {
		ref  Ref
		node Node
	}
	var places []place
	for _, o := range objects() {
		ref, node, _ := Of(o)
		places = append(places, place{ref, node})
	}
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		g, present := NewGraph(), map[Ref]Node{}
		for range 300 {
			p := places[random.IntN(len(places))]
			switch random.IntN(4) {
			case 0:
				g.Remove(p.ref)
				delete(present, p.ref)
			case 1: // The same kind with the relations of another.
				other := places[random.IntN(len(places))]
				if other.ref.Kind == p.ref.Kind {
					p.node.Seeds, p.node.Needs, p.node.With = other.node.Seeds, other.node.Needs, other.node.With
				}
				fallthrough
			case 2:
				g.Set(p.ref, p.node)
				present[p.ref] = p.node
			case 3:
				if random.IntN(10) > 0 {
					continue
				}
				kept := map[Ref]Node{}
				for ref, node := range present {
					if ref.Kind != p.ref.Kind {
						continue
					}
					if random.IntN(2) == 0 {
						kept[ref] = node
					} else {
						delete(present, ref)
					}
				}
				g.Replace(p.ref.Kind, kept)
			}
		}
		want := NewGraph()
		for ref, node := range present {
			want.Set(ref, node)
		}
		if g.Len() != want.Len() {
			t.Fatalf("seed %d: %d objects are known, want %d", seed, g.Len(), want.Len())
		}
		for ref := range want.vertices {
			for _, s := range []string{"a", "b", "c"} {
				if g.Needed(ref, s) != want.Needed(ref, s) || g.Belongs(ref, s) != want.Belongs(ref, s) {
					t.Fatalf("seed %d: %v on %s: needed %t, belongs %t; want %t, %t", seed, ref, s,
						g.Needed(ref, s), g.Belongs(ref, s), want.Needed(ref, s), want.Belongs(ref, s))
				}
			}
		}
	}
}

func TestChangedIsReported(t *testing.T) {
	g := NewGraph()
	ref, node, _ := Of(shootOn("garden-a", "s", "a", ""))
	told := func(what string, want bool, change func()) {
		t.Helper()
		changed := g.Changed()
		change()
		select {
		case <-changed:
			if !want {
				t.Errorf("%s is reported", what)
			}
		default:
			if want {
				t.Errorf("%s is not reported", what)
			}
		}
	}
	told("a new object", true, func() { g.Set(ref, node) })
	told("the same again", false, func() { g.Set(ref, node) })
	told("the same as a whole", false, func() { g.Replace(Shoot, map[Ref]Node{ref: node}) })
	told("another seed", true, func() { _, moved, _ := Of(shootOn("garden-a", "s", "b", "")); g.Set(ref, moved) })
	told("the end", true, func() { g.Remove(ref) })
	told("a second end", false, func() { g.Remove(ref) })
}

// TestSizeOfLargeGarden: the time for a decision about a Secret of all Shoots does not depend on their number.
func TestSizeOfLargeGarden(t *testing.T) {
	g := NewGraph()
	binding := "all"
	for i := range 20000 {
		ref, node, _ := Of(shootOn("garden-large", fmt.Sprintf("s-%d", i), fmt.Sprintf("seed-%d", i%50), "",
			func(s *corev1beta1.ShootSpec) { s.CredentialsBindingName = &binding }))
		g.Set(ref, node)
	}
	g.Set(Ref{CredentialsBinding, "garden-large", "all"}, Node{Needs: []Ref{{Secret, "garden-large", "cloud"}}})
	began := time.Now()
	for range 1000 {
		if g.Needed(Ref{Secret, "garden-large", "cloud"}, "seed-other") {
			t.Fatal("a seed without Shoots needs the Secret")
		}
	}
	if took := time.Since(began); took > time.Second { // It takes about 1 ms; iterating over Shoots would take seconds.
		t.Errorf("1000 questions took %s", took)
	}
}
