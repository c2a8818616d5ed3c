package main

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension/conformance"
)

func TestExtensionConforms(t *testing.T) {
	seed := fake.NewClientBuilder().WithScheme(newScheme()).
		WithStatusSubresource(&extensionsv1alpha1.Extension{}, &resourcesv1alpha1.ManagedResource{}).Build()
	hooks := shootWebhooks("extension-tagger-local-1", []byte("ca"))
	reconciler := newReconciler(seed, &actuator{seed: seed, hooks: hooks})
	conformance.Run(t, conformance.Target{
		Client: seed, Namespace: "shoot--dev--blue", Finalizer: "extensions.gardener.cloud/" + extensionType,
		New: func() extensionsv1alpha1.Object {
			e := &extensionsv1alpha1.Extension{}
			e.Spec.Type = extensionType
			return e
		},
		Step: func(ctx context.Context, key client.ObjectKey) error {
			_, err := reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: key})
			applyResource(t, seed, key.Namespace)
			return err
		},
	})
}

// applyResource does what the resource-manager of a seed does.
func applyResource(t *testing.T, seed client.Client, namespace string) {
	t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	err := seed.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: resourceName}, mr)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return
	}
	mr.Status.ObservedGeneration = mr.Generation
	mr.Status.Conditions = []corev1beta1.Condition{
		{Type: resourcesv1alpha1.ResourcesApplied, Status: corev1beta1.ConditionTrue},
		{Type: resourcesv1alpha1.ResourcesHealthy, Status: corev1beta1.ConditionTrue},
		{Type: resourcesv1alpha1.ResourcesProgressing, Status: corev1beta1.ConditionFalse},
	}
	if err := seed.Status().Update(t.Context(), mr); err != nil {
		t.Fatal(err)
	}
}
