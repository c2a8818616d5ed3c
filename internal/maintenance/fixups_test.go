package maintenance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// gatesOf are feature gates with values that Kubernetes accepts in one minor version but not in a later one, and others
// that stay.
var gatesOf = []string{
	"AllowServiceLBStatusOnNonLB", "AllowOverwriteTerminationGracePeriodSeconds", "AggregatedDiscoveryRemoveBetaType",
	"APIServerIdentity", "MemoryManager", "PodIndexLabel", "TopologyAwareHints", "SizeMemoryBackedVolumes", "AllAlpha",
}

// TestFixedUpShootsAreAccepted checks that the API server accepts the fields that a maintenance keeps, if they were
// accepted before, for every jump between known minor versions.
func TestFixedUpShootsAreAccepted(t *testing.T) {
	first, last := corev1beta1.KnownKubernetesMinors()
	rng := rand.New(rand.NewPCG(7, 0))
	gates := func() corev1beta1.KubernetesConfig {
		c := corev1beta1.KubernetesConfig{FeatureGates: map[string]bool{}}
		for _, gate := range gatesOf {
			if rng.IntN(2) == 0 {
				c.FeatureGates[gate] = rng.IntN(2) == 0
			}
		}
		return c
	}
	removed := 0
	for range 3000 {
		from := first + rng.IntN(last-first)
		to := from + 1 + rng.IntN(last-from)
		s := &corev1beta1.Shoot{}
		k := &s.Spec.Kubernetes
		k.Version = fmt.Sprintf("1.%d.1", from)
		k.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{KubernetesConfig: gates(), RuntimeConfig: map[string]bool{
			"storagemigration.k8s.io/v1alpha1": true, "scheduling.k8s.io/v1alpha1": false,
			"scheduling.k8s.io/v1alpha2/podgroups": true, "api/beta": true}}
		k.KubeControllerManager = &corev1beta1.KubeControllerManagerConfig{KubernetesConfig: gates()}
		k.KubeScheduler = &corev1beta1.KubeSchedulerConfig{KubernetesConfig: gates()}
		k.KubeProxy = &corev1beta1.KubeProxyConfig{KubernetesConfig: gates()}
		k.Kubelet = &corev1beta1.KubeletConfig{KubernetesConfig: gates()}
		s.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "w", Kubernetes: &corev1beta1.WorkerKubernetes{
			Kubelet: &corev1beta1.KubeletConfig{KubernetesConfig: gates()}}}}
		fixUp(&s.Spec, k.Version) // Only fields that the first version accepts could have been set.
		if wrong := complaints(s); len(wrong) > 0 {
			t.Fatalf("at 1.%d: %v", from, wrong)
		}
		before := k.Version
		k.Version = fmt.Sprintf("1.%d.3", to)
		may := MayNeedFixUp(&s.Spec)
		done := fixUp(&s.Spec, before)
		if wrong := complaints(s); len(wrong) > 0 {
			t.Fatalf("from 1.%d to 1.%d: %v", from, to, wrong)
		}
		if removed += len(done); len(done) > 0 && !may {
			t.Fatalf("MayNeedFixUp denies %v", done)
		}
	}
	if removed == 0 {
		t.Error("nothing was removed")
	}
}

// complaints are the validation errors about fields that depend on the Kubernetes version.
func complaints(s *corev1beta1.Shoot) []string {
	var wrong []string
	for _, err := range corev1beta1.ValidateShoot(s) {
		for _, field := range []string{
			"featureGates", "runtimeConfig", "admissionPlugins", "enableAnonymous", "podEviction",
		} {
			if strings.Contains(err.Field, field) {
				wrong = append(wrong, err.Error())
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}
