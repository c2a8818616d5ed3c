package care

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

func TestEveryKindOfExtensionObjectsIsHeard(t *testing.T) {
	const namespace = "shoot--p--s"
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1beta1.AddToScheme, extensionsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	build := fake.NewClientBuilder().WithScheme(scheme)
	var want []string
	for _, kind := range extensionobject.Kinds {
		o := kind.New()
		o.SetNamespace(namespace)
		o.SetName("a")
		o.GetDefaultStatus().Conditions = []corev1beta1.Condition{{Type: corev1beta1.ShootControlPlaneHealthy}}
		build.WithObjects(o)
		want = append(want, kind.Name)
	}
	c := build.Build()
	r, o := &Reconciler{Seed: c, Cache: c}, &Observed{}
	if err := r.readReports(t.Context(), o, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, report := range o.Reports {
		got = append(got, report.Kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds with reports (-want +got):\n%s", diff)
	}
}
