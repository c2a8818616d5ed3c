// Package test simulates the scheduler, see test/sim.
package test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/scheduler"
	"hortus.dev/hortus/test/sim"
)

const namespace = "garden-dev"

func seed(name string, places int64) *corev1beta1.Seed {
	s := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Provider = corev1beta1.SeedProvider{Type: "local", Region: "r", Zones: []string{"z"}}
	s.Spec.Networks = corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"}
	s.Spec.Settings = &corev1beta1.SeedSettings{Scheduling: &corev1beta1.SeedSettingScheduling{Visible: true}}
	s.Status.Allocatable = corev1.ResourceList{
		corev1beta1.SeedResourceShoots: *resource.NewQuantity(places, resource.DecimalSI),
	}
	s.Status.LastOperation = &corev1beta1.LastOperation{}
	s.Status.Conditions = []corev1beta1.Condition{{
		Type: corev1beta1.SeedGardenletReady, Status: corev1beta1.ConditionTrue,
	}}
	return s
}

func shoot(name string) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "p"}
	s.Spec.Region, s.Spec.Provider.Type = "r", "local"
	return s
}

// No seed gets more Shoots than it has places for, no Shoot is moved, and all get a seed when there are enough places.
func TestSimulateScheduler(t *testing.T) {
	ctx := context.Background()
	sim.Run(t, func(w *sim.World) {
		garden := w.Cluster("garden", sim.Scheme())
		garden.AddNamespaces(namespace)
		project := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}
		project.Spec.Namespace = new(namespace)
		profile := &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		profile.Spec.Type, profile.Spec.Regions = "local", []corev1beta1.Region{{Name: "r"}}
		garden.Add(project, profile, seed("a", 2))
		w.Process("scheduler", garden, func(p *sim.Process) error {
			if err := scheduler.AddIndexes(ctx, p.GetFieldIndexer()); err != nil {
				return err
			}
			return (&scheduler.Reconciler{
				Garden: p.GetClient(), Clock: clock.RealClock{}, // Of the bubble.
				Recorder: p.GetEventRecorder(""), Name: corev1beta1.DefaultSchedulerName, Strategy: scheduler.SameRegion,
				Workers: 1,
			}).SetupWithManager(ctx, p)
		})
		create := func(o client.Object) func(context.Context, client.Client) error {
			return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) }
		}
		for _, name := range []string{"one", "two", "three"} {
			w.Change("make Shoot "+name, garden, create(shoot(name)))
		}
		w.Change("make another seed", garden, create(seed("b", 1)))
		w.Change("make Shoot four", garden, create(shoot("four")))
		w.Change("delete Shoot one", garden, func(context.Context, client.Client) error {
			return garden.Delete(ctx, shoot("one"))
		})
		w.Change("make Shoot five", garden, create(shoot("five")))
		w.Change("the first seed gets another place", garden, func(context.Context, client.Client) error {
			a := seed("a", 0)
			return garden.EditStatus(a, func() { a.Status.Allocatable = seed("a", 3).Status.Allocatable })
		})

		assigned := map[string]string{}
		w.Always("no seed has too many Shoots, and each Shoot stays", func() error {
			var shoots corev1beta1.ShootList
			var seeds corev1beta1.SeedList
			if err := garden.List(ctx, &shoots); err != nil {
				return err
			}
			if err := garden.List(ctx, &seeds); err != nil {
				return err
			}
			count := map[string]int64{}
			for _, s := range shoots.Items {
				to := ptr.Deref(s.Spec.SeedName, "")
				if before := assigned[s.Name]; before != "" && before != to {
					return fmt.Errorf("Shoot %s has moved from %q to %q", s.Name, before, to)
				}
				assigned[s.Name] = to
				count[to]++
			}
			for _, s := range seeds.Items {
				if places := s.Status.Allocatable[corev1beta1.SeedResourceShoots]; count[s.Name] > places.Value() {
					return fmt.Errorf("seed %s has %d Shoots in %d places", s.Name, count[s.Name], places.Value())
				}
			}
			return nil
		})
		w.Faults(200)
		w.Eventually(200, "all Shoots have a seed", func() error {
			var shoots corev1beta1.ShootList
			if err := garden.List(ctx, &shoots); err != nil {
				return err
			}
			for _, s := range shoots.Items {
				if s.Spec.SeedName == nil {
					return fmt.Errorf("Shoot %s has none: %+v", s.Name, s.Status.LastOperation)
				}
			}
			return nil
		})
	})
}
