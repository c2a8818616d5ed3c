package test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/resourcemanager/managedresource"
	"hortus.dev/hortus/test/sim"
)

// syncPeriod is the longest time between two reconciles of a ManagedResource.
const syncPeriod = time.Minute

// Whatever happens to ManagedResources, their Secrets and their objects: no object is forgotten, at rest the target has
// exactly the wanted objects, and nothing is written any more.
func TestSimulateManagedResources(t *testing.T) {
	simulate(t, func(p *sim.Process, shoot *sim.Connection) error {
		r := &managedresource.Reconciler{
			Source: p.GetClient(), SourceReader: p.GetAPIReader(), Target: shoot.Direct(), Clock: clockOf(p),
			SyncPeriod: syncPeriod, Parallel: 1, // A seed replays one request after another only.
		}
		return r.AddToManager(p, shoot.GetCache())
	}, func(w *sim.World, seed, shoot *sim.Cluster) {
		h := newHistory(w, seed, shoot)
		w.Overlap()
		w.Always("all objects are listed", h.allListed)
		w.Always("conditions are true", h.conditionsAreTrue)
		w.Always("objects that must stay stay", h.objectsStay)
		w.Actor("finalizers are removed", shoot, h.finalize)
		for range 3 {
			for range 10 {
				name, change := h.next()
				w.Change(name, seed, act(change))
			}
			h.rest("all is as wanted")
			for range 2 {
				w.Change("others change an object", seed, act(h.disturbance()))
			}
			h.rest("all is as wanted after changes by others")
		}
		w.Change("all faults are repaired", seed, act(h.repair))
		h.rest("all is as wanted after repairs")
		for _, m := range h.all {
			w.Change("delete "+m.name, seed, act(func() error { return h.remove(m, false) }))
		}
		h.rest("all is gone")
	})
}

// rest lets faults happen. Soon after their end all must be as it should be, and nothing is written any more.
func (h *history) rest(name string) {
	h.w.Faults(100)
	h.w.Idle(2 * syncPeriod)
	err := h.asWanted()
	h.w.Eventually(50, name, func() error { return err })
	for _, m := range h.all {
		if m.kept && !m.there { // Nothing but its end can change these objects from now on.
			m.kept = false
			objects, err := h.objects()
			if err != nil {
				h.w.T.Fatal(err)
			}
			for name, o := range objects {
				h.left[name] = h.left[name] || h.of(o) == m
			}
		}
	}
	before := h.seed.Writes() + h.shoot.Writes()
	h.w.Idle(10 * syncPeriod)
	h.w.Eventually(50, "nothing is written at rest", func() error {
		n := h.seed.Writes() + h.shoot.Writes() - before
		return is(n == 0, "%d writes", n)
	})
}

// next chooses the next change. Its random choices are made now, the change may happen later.
func (h *history) next() (string, func() error) {
	r := h.w.Random
	m, name := h.all[r.IntN(len(h.all))], fmt.Sprint(r.IntN(4))
	if r.IntN(5) == 0 {
		name = []string{"kept", "widget"}[r.IntN(2)]
	}
	name = m.name + "-" + name
	object := manifest{name: name, part: r.IntN(2), value: fmt.Sprint(r.IntN(2)), labels: r.IntN(4)}
	keep, at := r.IntN(3) == 0, r.IntN(100)
	for _, one := range []struct {
		share  int // Of 100.
		name   string
		change func() error
	}{
		{24, "put " + name, func() error {
			m.previous = maps.Clone(m.wanted)
			m.wanted[name] = object
			return h.write(m)
		}},
		{10, "drop " + name, func() error {
			m.previous = maps.Clone(m.wanted)
			delete(m.wanted, name)
			return h.write(m)
		}},
		{14, "the Secrets of " + m.name + " are as before", func() error {
			m.wanted, m.previous = m.previous, maps.Clone(m.wanted)
			return h.write(m)
		}},
		{6, "the shared object moves to " + m.name, func() error {
			h.owner = m
			return h.write(h.all...)
		}},
		{6, "other labels for " + m.name, func() error {
			m.injects = !m.injects
			return h.edit(m)
		}},
		{14, "others change an object", h.disturbance()},
		{5, "the API of Widgets comes or goes", func() error { return h.toggleWidgets() }},
		{9, fmt.Sprintf("delete or make %s, keep objects: %v", m.name, keep), func() error {
			if m.there {
				return h.remove(m, keep)
			}
			return h.create(m)
		}},
		{4, "a Secret of " + m.name + " comes or goes", func() error {
			m.lost = !m.lost
			return h.write(m)
		}},
		{4, "a document of " + m.name + " is broken or repaired", func() error {
			m.broken = !m.broken
			return h.write(m)
		}},
	} {
		if at -= one.share; at < 0 {
			return one.name, one.change
		}
	}
	return m.name + " is ignored or not", func() error {
		m.ignored = !m.ignored
		return h.edit(m)
	}
}

func (h *history) disturbance() func() error {
	which, kind := h.w.Random.IntN(100), h.w.Random.IntN(6)
	return func() error { return h.disturb(which, kind) }
}

// asWanted compares both clusters with what is wanted, when nothing happens any more.
func (h *history) asWanted() error {
	live, err := h.objects()
	if err != nil {
		return err
	}
	for _, m := range h.all {
		if err := h.resourceAsWanted(m, live); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	for name, o := range live {
		m := h.of(o)
		if m == nil || h.mayBeLeft(name, o) || m.there && (m.ignored || m.lost || m.broken) {
			continue
		}
		if _, ok := h.wanted(m)[name]; !ok || !m.there {
			return fmt.Errorf("%s is left", name)
		}
	}
	return nil
}

func (h *history) resourceAsWanted(m *managed, live map[string]client.Object) error {
	mr, err := h.read(m)
	if err != nil || !m.there {
		return is(err == nil && mr == nil, "the ManagedResource is left: %v", err)
	}
	applied := reasonOf(mr, "ResourcesApplied")
	if want := h.appliedReason(m); applied != want {
		return fmt.Errorf("ResourcesApplied: %s, want %s: %+v", applied, want, mr.Status.Conditions)
	}
	if m.ignored || m.lost {
		return nil
	}
	for name, want := range h.wanted(m) {
		if want.isWidget() && !h.widgets || m.hides(want) {
			continue
		}
		if err := h.compare(m, want, live[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if applied != "True ApplySucceeded" {
		return nil
	}
	if healthy, progressing := reasonOf(mr, "ResourcesHealthy"), reasonOf(mr, "ResourcesProgressing"); healthy !=
		"True ResourcesHealthy" || progressing != "False ResourcesRolledOut" {
		return fmt.Errorf("conditions are %q and %q", healthy, progressing)
	}
	var listed []string
	for _, ref := range mr.Status.Resources {
		listed = append(listed, ref.Name)
	}
	slices.Sort(listed)
	names := slices.Sorted(maps.Keys(h.wanted(m)))
	return is(h.observed(m, mr) && slices.Equal(listed, names), "status lists %v, want %v", listed, names)
}
