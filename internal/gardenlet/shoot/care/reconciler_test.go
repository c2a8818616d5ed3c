package care

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestAllShootsAreCheckedAfterAnOutage(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	shoot := func(namespace, name string) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(shoot("garden-a", "x"), shoot("garden-b", "y")).Build()
	want := []reconcile.Request{
		{NamespacedName: client.ObjectKey{Namespace: "garden-a", Name: "x"}},
		{NamespacedName: client.ObjectKey{Namespace: "garden-b", Name: "y"}},
	}
	if diff := cmp.Diff(want, all(cache)(t.Context(), &corev1beta1.Seed{})); diff != "" {
		t.Errorf("all() mismatch (-want +got):\n%s", diff)
	}
}
