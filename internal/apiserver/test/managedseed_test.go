package test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/test/env"
)

// seedConfig has the fields that are not derived from the Shoot.
const seedConfig = `{
	"apiVersion": "gardenlet.config.gardener.cloud/v1alpha1", "kind": "GardenletConfiguration",
	"seedConfig": {"spec": {
		"networks": {"shootDefaults": {"pods": "100.80.0.0/16", "services": "100.81.0.0/16"}},
		"dns": {"internal": {"type": "local", "domain": "internal.example.com", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "dns"}}}
	}}}`

func newManagedSeed(shoot, config string) *seedmanagementv1alpha1.ManagedSeed {
	return &seedmanagementv1alpha1.ManagedSeed{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: env.Name("ms")},
		Spec: seedmanagementv1alpha1.ManagedSeedSpec{
			Shoot:     &seedmanagementv1alpha1.Shoot{Name: shoot},
			Gardenlet: seedmanagementv1alpha1.GardenletConfig{Config: &runtime.RawExtension{Raw: []byte(config)}},
		},
	}
}

// gardenShoot returns a Shoot of the namespace garden that can become a Seed, and the Seed that runs it.
func (g *garden) gardenShoot() (*corev1beta1.Shoot, *corev1beta1.Seed) {
	g.t.Helper()
	binding := g.binding.DeepCopy()
	binding.ObjectMeta = metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: env.Name("cloud-")}
	binding.CredentialsRef.Namespace, binding.CredentialsRef.Name = binding.Namespace, binding.Name
	parent, shoot := newSeed(), g.newShoot()
	g.Create(g.t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: binding.Namespace, Name: binding.Name}}, binding,
		parent)
	shoot.Namespace, shoot.Spec.CredentialsBindingName = binding.Namespace, &binding.Name
	domain, nodes := env.Name("d")+".example.com", "10.180.0.0/16"
	shoot.Spec.DNS = &corev1beta1.DNS{Domain: &domain}
	shoot.Spec.Networking.Nodes = &nodes
	shoot.Spec.Provider.Workers[0].Zones = []string{"a", "b"}
	shoot.Spec.Kubernetes.VerticalPodAutoscaler = &corev1beta1.VerticalPodAutoscaler{Enabled: true}
	g.Create(g.t, shoot)
	g.mustPatch(shoot, bind(parent.Name), "binding")
	return shoot, parent
}

func TestManagedSeeds(t *testing.T) {
	g := newGarden(t)
	shoot, parent := g.gardenShoot()
	elsewhere := newManagedSeed(shoot.Name, seedConfig)
	elsewhere.Namespace = g.namespace
	refuse(t, "another namespace", g.Client.Create(g.ctx, elsewhere), apierrors.IsInvalid, "metadata.namespace")
	refuse(t, "a missing Shoot", g.Client.Create(g.ctx, newManagedSeed("none", seedConfig)), apierrors.IsInvalid,
		"spec.shoot.name")
	wrong := strings.Replace(seedConfig, `"networks": {`, `"networks": {"pods": "10.9.0.0/16", `, 1)
	refuse(t, "other networks", g.Client.Create(g.ctx, newManagedSeed(shoot.Name, wrong)), apierrors.IsInvalid,
		"seedConfig.spec.networks.pods")

	managed := newManagedSeed(shoot.Name, seedConfig)
	managed.Spec.Gardenlet.Config.Raw = []byte(strings.Replace(seedConfig, `"dns": {`,
		`"dns": {"provider": {"type": "local", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "dns"}}, `, 1))
	g.Create(t, managed)
	if managed.Labels[corev1beta1.LabelPrefixSeedName+parent.Name] != "true" {
		t.Errorf("labels do not name the Seed that runs the Shoot: %v", managed.Labels)
	}
	var config struct{ SeedConfig corev1beta1.SeedTemplate }
	if err := json.Unmarshal(managed.Spec.Gardenlet.Config.Raw, &config); err != nil {
		t.Fatal(err)
	}
	spec := config.SeedConfig.Spec
	if spec.Provider.Type != "local" || len(spec.Provider.Zones) != 2 || spec.Networks.Pods != "100.96.0.0/16" ||
		*spec.Networks.Nodes != "10.180.0.0/16" ||
		spec.Ingress.Domain != "ingress."+*shoot.Spec.DNS.Domain || spec.Settings.VerticalPodAutoscaler.Enabled {
		t.Errorf("seedConfig is %s", managed.Spec.Gardenlet.Config.Raw)
	}
	refuse(t, "a second one", g.Client.Create(g.ctx, newManagedSeed(shoot.Name, seedConfig)), apierrors.IsInvalid,
		managed.Name)

	// The Shoot moves; the labels follow with the next write, even one that changes nothing.
	next := newSeed()
	g.Create(t, next)
	g.mustPatch(shoot, bind(next.Name), "binding")
	g.mustPatch(managed, `{}`)
	if managed.Labels[corev1beta1.LabelPrefixSeedName+next.Name] != "true" ||
		managed.Labels[corev1beta1.LabelPrefixSeedName+parent.Name] == "true" {
		t.Errorf("labels do not name the Seed that is to run the Shoot now: %v", managed.Labels)
	}
	parent = next

	refuse(t, "removal of the autoscaler",
		g.patch(shoot, `{"spec":{"kubernetes":{"verticalPodAutoscaler":{"enabled":false}}}}`), apierrors.IsInvalid,
		"verticalPodAutoscaler.enabled")
	refuse(t, "other nodes", g.patch(shoot, `{"spec":{"networking":{"nodes":"10.181.0.0/16"}}}`), apierrors.IsInvalid,
		"spec.networking.nodes")
	g.mustPatch(shoot, `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`)
	refuse(t, "deletion of its Shoot", g.Client.Delete(g.ctx, shoot), apierrors.IsForbidden, managed.Name)

	seed := newSeed()
	seed.Name = managed.Name
	env.Eventually(t, "the Seed names its parent", func() (bool, error) {
		answer := seed.DeepCopy()
		err := g.Client.Create(g.ctx, answer, client.DryRunAll)
		return answer.Labels[corev1beta1.LabelPrefixSeedName+parent.Name] == "true" &&
			answer.Labels[corev1beta1.LabelPrefixSeedName+seed.Name] == "true", err
	})
	g.Create(t, seed)
	user := g.newShoot()
	g.Create(t, user)
	g.mustPatch(user, bind(seed.Name), "binding")
	refuse(t, "deletion while Shoots are on the Seed", g.Client.Delete(g.ctx, managed), apierrors.IsForbidden, user.Name)
}
