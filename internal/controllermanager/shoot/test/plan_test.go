package test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/shoot/maintenance"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/plan"
	"hortus.dev/hortus/test/env"
)

// The controllers of a garden do what 'hortus plan' shows, with a real API server.
func TestPlanOfAGardenComesTrue(t *testing.T) {
	spec := corev1beta1.CloudProfileSpec{
		Kubernetes: kubernetes(version("1.36.3", "s"), version("1.35.4", "dx"), version("1.35.3", "dx"),
			version("1.34.4", "dx"), version("1.34.3", "d")),
		MachineImages: images(version("1.0.0", "x"), version("1.1.0", "d"), version("2.0.0", "s")),
	}
	g := newGarden(t, spec)
	shoots := []*corev1beta1.Shoot{
		g.newShoot("1.34.4"),
		g.newShoot("1.34.3", func(s *corev1beta1.Shoot) { s.Spec.Maintenance.AutoUpdate.KubernetesVersion = true }),
		g.newShoot("1.35.3", func(s *corev1beta1.Shoot) {
			s.Spec.Maintenance.TimeWindow = &corev1beta1.MaintenanceTimeWindow{Begin: "233000+0100", End: "020000+0100"}
			s.Spec.Maintenance.AutoUpdate.MachineImageVersion = ptr.To(true)
			s.Spec.Provider.Workers[0].Kubernetes = &corev1beta1.WorkerKubernetes{Version: ptr.To("1.34.4")}
		}),
	}
	until := noon.AddDate(0, 0, 8)
	objects, err := fleet.FromGarden(g.ctx, g.Client, g.namespace, plan.Reads)
	if err != nil {
		t.Fatal(err)
	}
	planned := plan.Make(plan.Prepare(objects, noon), plan.Options{At: noon, Until: until, Jitter: middle})
	var want, got []string
	for _, s := range planned.Shoots {
		for _, c := range s.Changes {
			want = append(want, fmt.Sprintf("%s %s %s%s %s->%s", c.At.Format(time.RFC3339), s.Name, c.Subject, c.Pool, c.From,
				c.To))
		}
	}
	if len(want) < 8 {
		t.Fatalf("the plan has too few changes: %q", want)
	}
	due := map[string]time.Time{}
	for _, s := range shoots {
		due[s.Name] = noon
	}
	for {
		next := slices.MinFunc(shoots, func(a, b *corev1beta1.Shoot) int { return due[a.Name].Compare(due[b.Name]) })
		if due[next.Name].After(until) {
			break
		}
		clock.SetTime(due[next.Name])
		before := g.get(next).DeepCopy()
		result, _ := g.maintain(next)
		due[next.Name] = clock.Now().Add(result.RequeueAfter)
		note := func(what, from, to string) {
			if from != to {
				got = append(got, fmt.Sprintf("%s %s %s %s->%s", clock.Now().Format(time.RFC3339), next.Name, what, from, to))
			}
		}
		note("ControlPlane", before.Spec.Kubernetes.Version, next.Spec.Kubernetes.Version)
		was, is := before.Spec.Provider.Workers[0], next.Spec.Provider.Workers[0]
		if is.Kubernetes != nil && is.Kubernetes.Version != nil {
			note("PoolKubernetespool", *was.Kubernetes.Version, *is.Kubernetes.Version)
		}
		note("PoolImagepool", *was.Machine.Image.Version, *is.Machine.Image.Version)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes mismatch (-plan +controller):\n%s", diff)
	}
}

var dueShoots = flag.Int("shoots", 300, "Shoots that BenchmarkWindow has due at the same time")

// BenchmarkWindow has many Shoots due in one window and measures the maintained Shoots per second, and the required
// memory. The rate should not depend on their number.
func BenchmarkWindow(b *testing.B) {
	e := env.Shared(b)
	clock.SetTime(noon)
	g := &garden{Environment: e, ctx: b.Context(), namespace: *e.Project(b).Spec.Namespace}
	g.profile = profileFor(b, e, offer())
	for i := range *dueShoots {
		s := workerless(g, fmt.Sprintf("b%d", i))
		if err := e.Client.Create(g.ctx, s); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		var done atomic.Int64
		mgr, err := ctrl.NewManager(e.Config, ctrl.Options{
			Scheme: e.Scheme, Metrics: server.Options{BindAddress: "0"},
			NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
				c, err := client.NewWithWatch(config, options)
				return interceptor.NewClient(c, interceptor.Funcs{
					Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
						defer done.Add(1)
						return c.Update(ctx, obj, opts...)
					},
				}), err
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		r := &maintenance.Reconciler{
			Garden: mgr.GetClient(), Clock: clock, Jitter: middle, Recorder: mgr.GetEventRecorder("b"),
			Profiles: &maintenance.Profiles{},
		}
		if err := r.AddToManager(mgr, 5); err != nil {
			b.Fatal(err)
		}
		inWindow(0)
		ctx, stop := context.WithCancel(g.ctx)
		ended := make(chan error, 1)
		begin := time.Now()
		go func() { ended <- mgr.Start(ctx) }()
		for done.Load() < int64(*dueShoots) {
			time.Sleep(20 * time.Millisecond)
		}
		took := time.Since(begin)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(*dueShoots)/took.Seconds(), "shoots/s")
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MB-heap")
		stop()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}
