package crds_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/test/env"
)

// TestServerEnforces installs all definitions and policies on a real API server and looks at what it then refuses.
func TestServerEnforces(t *testing.T) {
	e := env.Start(t, env.WithCRDs(crds.Seed()...), env.WithScheme(extensionsv1alpha1.AddToScheme))
	for _, policy := range crds.Policies() {
		if err := e.Client.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
	}
	e.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	infra := &extensionsv1alpha1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", Finalizers: []string{"extensions.gardener.cloud/infrastructure"},
		},
		Spec: extensionsv1alpha1.InfrastructureSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "r",
			SecretRef: corev1.SecretReference{Namespace: "ns", Name: "s"},
		},
	}
	e.Create(t, infra)
	patch := func(change func(*extensionsv1alpha1.Infrastructure)) error {
		before := infra.DeepCopy()
		after := infra.DeepCopy()
		change(after)
		return e.Client.Patch(t.Context(), after, client.MergeFrom(before))
	}
	refused := func(err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want one with %q", err, text)
		}
	}

	refused(patch(func(i *extensionsv1alpha1.Infrastructure) { i.Spec.Region = "other" }), "is immutable")
	refused(patch(func(i *extensionsv1alpha1.Infrastructure) { i.Spec.Type = "other" }), "is immutable")

	// A policy takes effect a moment after it was created.
	deadline := time.Now().Add(time.Minute)
	for {
		err := e.Client.Delete(t.Context(), infra, client.DryRunAll)
		if err != nil {
			refused(err, "deletion must be confirmed")
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an unconfirmed deletion is let through")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := patch(func(i *extensionsv1alpha1.Infrastructure) {
		i.Annotations = map[string]string{extensionsv1alpha1.AnnotationConfirmDeletion: "true"}
	}); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(t.Context(), infra); err != nil {
		t.Errorf("a confirmed deletion is refused: %v", err)
	}
	if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil {
		t.Fatal(err)
	}
	refused(patch(func(i *extensionsv1alpha1.Infrastructure) { i.Spec.SSHPublicKey = []byte("x") }),
		"spec must not change")
	if err := patch(func(i *extensionsv1alpha1.Infrastructure) { i.Finalizers = nil }); err != nil {
		t.Errorf("the finalizer cannot be removed: %v", err)
	}

	crd := crds.Get(crds.Extensions)[0]
	if err := e.Client.Delete(t.Context(), crd, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("deletion of a definition: %v, want it refused", err)
	}
}
