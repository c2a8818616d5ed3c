package test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/test/env"
)

// requests counts the gardenlet's requests.
type requests struct{ reads, writes atomic.Int64 }

// count counts the gardenlet's requests, including those to the seed.
func (w *world) count() *requests {
	w.t.Helper()
	counted := &requests{}
	funcs := interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			counted.reads.Add(1)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			counted.reads.Add(1)
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			counted.writes.Add(1)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			counted.writes.Add(1)
			return c.Patch(ctx, o, p, opts...)
		},
	}
	w.garden = interceptor.NewClient(withWatch(w.t, w), funcs)
	seed, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
	w.must(err)
	w.restart()
	w.r.States.Seed = interceptor.NewClient(seed, funcs)
	return counted
}

// During a roll-out of machines the state changes all the time.
func TestBurstsAreOneWrite(t *testing.T) {
	w := newWorld(t)
	counted := w.count()
	w.persist("ca", "one")
	w.pass()
	first := counted.writes.Load()
	if first != 1 {
		t.Fatalf("there were %d writes, want 1", first)
	}
	infra := w.infrastructure(`{}`)
	reads := counted.reads.Load()
	for i := range 9 {
		w.setState(infra, fmt.Sprintf(`{"i":%d}`, i))
		w.clock.Step(time.Second)
		res, err := w.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.shoot)})
		if want := time.Duration(9-i) * time.Second; err != nil || res.RequeueAfter != want {
			t.Fatalf("Reconcile() after %d s = %v, %v, want to be called in %s", i+1, res, err, want)
		}
	}
	if got := counted.reads.Load(); got != reads {
		t.Errorf("%d objects were read in the pause", got-reads)
	}
	w.clock.Step(time.Second)
	w.must(w.tryPass())
	if got := counted.writes.Load(); got != 2 {
		t.Errorf("there were %d writes in 10 s, want 1 at the end", got-first)
	}
	if got := entries(w.state())[1]; got != `Infrastructure {"i":8}` {
		t.Errorf("the garden has %s", got)
	}
}

// counting counts the relevant events in a namespace of the seed: the controller looks for the Shoot after each.
type counting struct {
	ctrl.Manager
	client client.Client
}

func (m counting) GetClient() client.Client { return m.client }

func countEvents(mgr ctrl.Manager, namespace string) (ctrl.Manager, *atomic.Int64) {
	events := &atomic.Int64{}
	return counting{mgr, listing{mgr.GetClient(), func(opts []client.ListOption) {
		if slices.ContainsFunc(opts, func(o client.ListOption) bool {
			fields, ok := o.(client.MatchingFields)
			return ok && slices.Contains(slices.Collect(maps.Values(fields)), namespace)
		}) {
			events.Add(1)
		}
	}}}, events
}

// listing calls listed before every list.
type listing struct {
	client.Client
	listed func([]client.ListOption)
}

func (l listing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	l.listed(opts)
	return l.Client.List(ctx, list, opts...)
}

// run runs the controller with caches as in the gardenlet, and counts the relevant events of the Shoot.
func (w *world) run() *atomic.Int64 {
	w.t.Helper()
	config := w.As(corev1beta1.SeedUserPrefix+w.seed.Name, corev1beta1.SeedsGroup)
	own := labels.SelectorFromSet(labels.Set{corev1beta1.LabelPrefixSeedName + w.seed.Name: "true"})
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: w.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}, // Each test has a manager.
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1beta1.Shoot{}: {Label: own}}},
	})
	w.must(err)
	states, err := cache.New(w.Config, shootstate.CacheOptions(w.Scheme))
	w.must(err)
	w.must(mgr.Add(states))
	counted, events := countEvents(mgr, w.namespace())
	w.must(w.r.AddToManager(counted, states, 1))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("run controller: %v", err)
		}
	})
	return events
}

func TestChangesInTheSeedAreEvents(t *testing.T) {
	w := newWorld(t)
	w.count()
	w.persist("ca", "one")
	infra := w.infrastructure(`{"vpc":"1"}`)
	w.run()
	saved := func(what string, want ...string) {
		t.Helper()
		env.Eventually(t, what, func() (bool, error) {
			w.clock.Step(20 * time.Second) // The pause is over.
			state := w.state()
			if state == nil {
				return false, nil
			}
			got := entries(state)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return false, fmt.Errorf("the garden has %q", got)
			}
			return true, nil
		})
	}
	saved("what was there before", "secret ca", `Infrastructure {"vpc":"1"}`)
	w.setState(infra, `{"vpc":"2"}`)
	saved("a state", "secret ca", `Infrastructure {"vpc":"2"}`)
	w.machines(1)
	saved("machines", "secret ca", "machine-state machine-state", `Infrastructure {"vpc":"2"}`)
	w.must(w.Client.Delete(w.ctx, infra))
	saved("a deletion", "secret ca", "machine-state machine-state")
}

// TestIrrelevantChangesAreNoEvents changes the status of an operation. A state that is written later, and comes through
// the same watch, shows that all earlier changes have been seen.
func TestIrrelevantChangesAreNoEvents(t *testing.T) {
	w := newWorld(t)
	w.count()
	events := w.run()
	network := &extensionsv1alpha1.Network{}
	network.Namespace, network.Name = w.namespace(), "n"
	network.Spec = extensionsv1alpha1.NetworkSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, PodCIDR: "10.0.0.0/16", ServiceCIDR: "10.1.0.0/16",
	}
	w.must(w.Client.Create(w.ctx, network))
	w.setState(network, `{"router":"1"}`)
	env.Eventually(t, "a state is an event", func() (bool, error) { return events.Load() == 1, nil })
	for i := range 5 {
		before := network.DeepCopy()
		network.Status.ObservedGeneration = int64(i + 1)
		w.must(w.Client.Status().Patch(w.ctx, network, client.MergeFrom(before)))
	}
	w.setState(network, `{"router":"2"}`)
	env.Eventually(t, "another state is an event", func() (bool, error) { return events.Load() > 1, nil })
	if got := events.Load(); got != 2 {
		t.Errorf("there were %d events, want only those of the states", got)
	}
}
