package heartbeat

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestBeat(t *testing.T) {
	scheme := runtime.NewScheme()
	utilruntime.Must(coordinationv1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		beat := &Beat{Client: c, Clock: clock.RealClock{}, Namespace: "extension-x", Holder: "x"}
		ended := make(chan error)
		go func() { ended <- beat.Start(ctx) }()
		for range 3 {
			synctest.Wait()
			lease := &coordinationv1.Lease{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: "extension-x", Name: "gardener-extension-heartbeat"},
				lease); err != nil {
				t.Fatal(err)
			}
			if age := time.Since(lease.Spec.RenewTime.Time); age > time.Second || *lease.Spec.HolderIdentity != "x" {
				t.Errorf("the lease of %s is %s old", *lease.Spec.HolderIdentity, age)
			}
			time.Sleep(Interval)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
}
