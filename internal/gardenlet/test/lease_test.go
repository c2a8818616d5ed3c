package test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/seed"
	"hortus.dev/hortus/test/env"
)

// TestLeaseReportsTheEndOfAnOutage takes the seed's API server away for 20 minutes by the clock of the Lease.
func TestLeaseReportsTheEndOfAnOutage(t *testing.T) {
	e := env.Shared(t)
	namespaces(t, e)
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	d, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Now())
	name := env.Name("seed-")
	lease := &seed.Lease{
		Garden: e.Client, SeedREST: d.RESTClient(), Clock: clock, Name: name, Holder: "test", Period: 2 * time.Second,
	}
	first, second := lease.Resumed(), lease.Resumed()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lease.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	alive := func(want bool) func() (bool, error) {
		return func() (bool, error) {
			clock.Step(lease.Period)
			return lease.Alive() == want, nil
		}
	}
	e.Create(t, &corev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: seedSpec(dnsSecret(t, e, name).Name),
	})
	env.Eventually(t, "the Lease is renewed", alive(true))
	for range 2 { // The second time after an outage.
		if got := (<-first).Object.GetName(); got != name {
			t.Errorf("the event is for Seed %q", got)
		}
		<-second
		down.Store(true)
		env.Eventually(t, "the outage is noticed", alive(false))
		clock.Step(20 * time.Minute)
		env.Eventually(t, "the outage lasts", alive(false))
		if len(first)+len(second) > 0 {
			t.Error("there is an event although the outage lasts")
		}
		down.Store(false)
		env.Eventually(t, "the Lease is renewed again", alive(true))
	}
	<-first
	<-second
	for _, is := range []bool{false, true} { // A short outage.
		down.Store(!is)
		clock.Step(lease.Period)
		env.Eventually(t, "the renewal is tried", func() (bool, error) { return lease.Alive() == is, nil })
	}
	if len(first)+len(second) > 0 {
		t.Error("there is an event after a short outage")
	}
	object := &coordinationv1.Lease{}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Namespace: corev1beta1.SeedLeaseNamespace, Name: name},
		object); err != nil {
		t.Fatal(err)
	}
	if o := object.OwnerReferences; len(o) != 1 || o[0].Name != name || o[0].Kind != "Seed" {
		t.Errorf("the Lease is owned by %+v, want the Seed", o)
	}
	if passed := clock.Since(object.Spec.RenewTime.Time); passed > 2*lease.Period {
		t.Errorf("the Lease was renewed %s ago", passed)
	}
}
