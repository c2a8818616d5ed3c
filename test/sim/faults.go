package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type fault int

const (
	faultNone fault = iota
	faultRefused
	faultConflict
	faultLost
	faultCrash
	faultOverlap
)

// draw returns a number that depends on the seed and its purpose, and not on the draws of other goroutines.
func (w *World) draw(what string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s", w.seed, what)
	return rand.New(rand.NewPCG(h.Sum64(), w.seed)).Uint64()
}

// faultOf returns the fault of an operation, by the seed, its name and the number of its earlier calls.
func (w *World) faultOf(p *Process, where string, o operation) fault {
	w.mu.Lock()
	name := fmt.Sprintf("%s/%s/%s", p.name, where, o)
	w.counts[name]++
	n, faults := w.counts[name], w.faults
	w.mu.Unlock()
	if !faults {
		return faultNone
	}
	at := w.draw(fmt.Sprintf("%s/%d", name, n)) % (100 * w.rarity)
	for _, one := range []struct {
		chance uint64
		fault  fault
		fits   bool
	}{
		{w.chances.refused, faultRefused, true},
		{w.chances.lost, faultLost, o.write},
		{w.chances.conflict, faultConflict, o.verb == "update" || o.verb == "patch"},
		{w.chances.crash, faultCrash, o.write},
		{w.chances.overlap, faultOverlap, o.write && w.overlap},
	} {
		if !one.fits {
			continue
		}
		if at < one.chance {
			return one.fault
		}
		at -= one.chance
	}
	return faultNone
}

// maxBehind is the largest number of changes that the watch cache of a server is behind.
const maxBehind = 5

// behind returns how far the watch cache of a server is behind for a list; 0 if it is not.
func (w *World) behind(p *Process, c *Cluster, gvk schema.GroupVersionKind) uint64 {
	w.mu.Lock()
	name := fmt.Sprintf("%s/%s/stale/%s", p.name, c.name, gvk.Kind)
	w.counts[name]++
	n, faults := w.counts[name], w.faults
	w.mu.Unlock()
	at := w.draw(fmt.Sprintf("%s/%d", name, n))
	if !faults || at%100 >= w.chances.stale {
		return 0
	}
	return at / 100
}

// shuffle gives a list an order of its own.
func (w *World) shuffle(gvk schema.GroupVersionKind, position int, objects []*version) {
	n := w.draw(fmt.Sprintf("order/%s/%d", gvk.Kind, position))
	rand.New(rand.NewPCG(n, 0)).Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
}
