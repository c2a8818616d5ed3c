// Package test simulates the controllers of the garden, see test/sim.
package test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/controllerregistration"
	"hortus.dev/hortus/test/sim"
)

var ctx = context.Background()

// simulate runs controllers of the garden in a simulated process like the controller manager's.
func simulate(t *testing.T, setup func(*sim.Process) error, test func(*sim.World, *sim.Cluster)) {
	t.Helper()
	sim.Run(t, func(w *sim.World) {
		garden := w.Cluster("garden", sim.Scheme()).Uncached(&corev1.Secret{}, &corev1.ConfigMap{})
		garden.AddNamespaces("garden", "garden-dev", "gardener-system-seed-lease")
		w.Process("controller-manager", garden, func(p *sim.Process) error {
			if err := controllerregistration.AddIndexes(ctx, p.GetFieldIndexer()); err != nil {
				return err
			}
			return setup(p)
		})
		test(w, garden)
	})
}

// withSyncs is for controllers with a setting for concurrent reconciliations.
func withSyncs(add func(manager.Manager, int) error) func(manager.Manager) error {
	return func(m manager.Manager) error { return add(m, 1) }
}

func named[T any, P interface {
	*T
	client.Object
}](namespace, name string) P {
	o := P(new(T))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func shoot(name string) *corev1beta1.Shoot { return named[corev1beta1.Shoot]("garden-dev", name) }
func seed(name string) *corev1beta1.Seed   { return named[corev1beta1.Seed]("", name) }
func secret(name string) *corev1.Secret    { return named[corev1.Secret]("garden-dev", name) }
func now(w *sim.World) metav1.Time         { return metav1.NewTime(w.Clock().Now()) }
func is(ok bool, format string, a ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, a...)
}
