package test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

// A gardenlet has a Gardenlet or a ManagedSeed, not both.
func TestGardenletsExcludeManagedSeeds(t *testing.T) {
	g := newGarden(t)
	shoot, parent := g.gardenShoot()
	g.Create(t, env.Gardenlet(t, parent))

	managed := newManagedSeed(shoot.Name, withDNSProvider)
	managed.Name = parent.Name
	refuse(t, "a ManagedSeed beside a Gardenlet", g.Client.Create(g.ctx, managed), apierrors.IsForbidden,
		"that of Gardenlet")
	managed = newManagedSeed(shoot.Name, withDNSProvider)
	g.Create(t, managed)
	inner := newSeed()
	inner.Name = managed.Name
	refuse(t, "a Gardenlet beside a ManagedSeed", g.Client.Create(g.ctx, env.Gardenlet(t, inner)), apierrors.IsForbidden,
		"that of ManagedSeed")

	c, warnings := listening(t, g.Environment)
	for _, tc := range []struct {
		seed *corev1beta1.Seed
		want int
	}{{newSeed(), 1}, {parent, 0}} {
		if err := c.Create(g.ctx, env.Gardenlet(t, tc.seed), client.DryRunAll); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		if got := warnings.take(); len(got) != tc.want || tc.want > 0 && !strings.Contains(got[0], "there is no Seed") {
			t.Errorf("Gardenlet of Seed %q: warnings %q, want %d", tc.seed.Name, got, tc.want)
		}
	}

	moved := parent.DeepCopy()
	moved.Spec.Networks.Pods = "10.245.0.0/16"
	now := env.Gardenlet(t, moved)
	refuse(t, "other networks than the Seed's", g.patch(env.Gardenlet(t, parent), `{"spec":{"config":`+
		string(now.Spec.Config.Raw)+`}}`), apierrors.IsInvalid, "spec.config.seedConfig.spec.networks.pods")

	elsewhere := env.Gardenlet(t, parent)
	elsewhere.Namespace, elsewhere.Name = g.namespace, env.Name("gardenlet-")
	refuse(t, "another namespace", g.Client.Create(g.ctx, elsewhere), apierrors.IsInvalid, "metadata.namespace")
}
