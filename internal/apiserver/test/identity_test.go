package test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/test/env"
)

func identityOf(t *testing.T, e *env.Environment) *corev1.ConfigMap {
	t.Helper()
	m := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: corev1beta1.ClusterIdentityName}
	if err := e.Client.Get(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestGardenHasAnIdentity: as soon as the API server is ready, the garden has an identity, and keeps it.
func TestGardenHasAnIdentity(t *testing.T) {
	e := env.Start(t, env.WithGardenAPI())
	first := identityOf(t, e)
	system := &corev1.Namespace{}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	if got := first.Data[corev1beta1.ClusterIdentityName]; got == "" || got != string(system.UID) {
		t.Errorf("the identity is %q, want the UID of kube-system %q", got, system.UID)
	}
	if first.Data[corev1beta1.DataKeyOrigin] != "gardener-apiserver" || !ptr.Deref(first.Immutable, false) {
		t.Errorf("the ConfigMap is %+v", first)
	}
	if err := e.RestartGardenAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := identityOf(t, e); again.ResourceVersion != first.ResourceVersion {
		t.Errorf("the next start has written %+v", again)
	}
}

func TestGardenHasTheIdentityOfItsConfiguration(t *testing.T) {
	e := env.Start(t, env.WithGardenAPI(func(o *apiserver.Options) { o.ClusterIdentity = "landscape-1" }))
	if got := identityOf(t, e).Data[corev1beta1.ClusterIdentityName]; got != "landscape-1" {
		t.Errorf("the identity is %q, want that of the configuration", got)
	}
}
