package env

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// Gardenlet returns a Gardenlet for a Seed, whose chart does not exist. It is not created.
func Gardenlet(t testing.TB, seed *corev1beta1.Seed) *seedmanagementv1alpha1.Gardenlet {
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
	g.Spec.Deployment.Helm.OCIRepository.Ref = ptr("registry.invalid/charts/gardenlet:1.0.0")
	return g
}
