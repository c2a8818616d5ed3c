package test

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/test/env"
)

// newGardenlet is the Gardenlet of a Seed.
func newGardenlet(t *testing.T, seed *corev1beta1.Seed) *seedmanagementv1alpha1.Gardenlet {
	t.Helper()
	config, err := json.Marshal(map[string]any{
		"apiVersion": "gardenlet.config.gardener.cloud/v1alpha1", "kind": "GardenletConfiguration",
		"seedConfig": map[string]any{"spec": seed.Spec},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &seedmanagementv1alpha1.Gardenlet{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: seed.Name},
		Spec:       seedmanagementv1alpha1.GardenletSpec{Config: &runtime.RawExtension{Raw: config}},
	}
	g.Spec.Deployment.Helm.OCIRepository.Ref = new("registry.invalid/charts/gardenlet:1.0.0")
	return g
}

// A gardenlet has a Gardenlet or a ManagedSeed, not both.
func TestGardenletsExcludeManagedSeeds(t *testing.T) {
	g := newGarden(t)
	shoot, parent := g.gardenShoot()
	g.Create(t, newGardenlet(t, parent))

	managed := newManagedSeed(shoot.Name, withDNSProvider)
	managed.Name = parent.Name
	refuse(t, "a ManagedSeed beside a Gardenlet", g.Client.Create(g.ctx, managed), apierrors.IsForbidden,
		"that of Gardenlet")
	managed = newManagedSeed(shoot.Name, withDNSProvider)
	g.Create(t, managed)
	inner := newSeed()
	inner.Name = managed.Name
	refuse(t, "a Gardenlet beside a ManagedSeed", g.Client.Create(g.ctx, newGardenlet(t, inner)), apierrors.IsForbidden,
		"that of ManagedSeed")

	c, warnings := listening(t, g.Environment)
	for _, tc := range []struct {
		seed *corev1beta1.Seed
		want int
	}{{newSeed(), 1}, {parent, 0}} {
		if err := c.Create(g.ctx, newGardenlet(t, tc.seed), client.DryRunAll); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		if got := warnings.take(); len(got) != tc.want || tc.want > 0 && !strings.Contains(got[0], "there is no Seed") {
			t.Errorf("Gardenlet of Seed %q: warnings %q, want %d", tc.seed.Name, got, tc.want)
		}
	}

	moved := parent.DeepCopy()
	moved.Spec.Networks.Pods = "10.245.0.0/16"
	now := newGardenlet(t, moved)
	refuse(t, "other networks than the Seed's", g.patch(newGardenlet(t, parent), `{"spec":{"config":`+
		string(now.Spec.Config.Raw)+`}}`), apierrors.IsInvalid, "spec.config.seedConfig.spec.networks.pods")

	elsewhere := newGardenlet(t, parent)
	elsewhere.Namespace, elsewhere.Name = g.namespace, env.Name("gardenlet-")
	refuse(t, "another namespace", g.Client.Create(g.ctx, elsewhere), apierrors.IsInvalid, "metadata.namespace")
}
