package main

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/conformance"
)

func config(message string) string {
	return `{"apiVersion": "notice.example.com/v1alpha1", "kind": "NoticeConfig", "message": "` + message + `"}`
}

func TestMessage(t *testing.T) {
	cluster := &extension.Cluster{Shoot: &corev1beta1.Shoot{}}
	cluster.Shoot.Name, cluster.Shoot.Spec.Kubernetes.Version = "blue", "1.36.3"
	for name, tc := range map[string]struct{ config, want, problem string }{
		"text":              {config: config("Hello"), want: "Hello"},
		"a template":        {config: config("{{ .Shoot }} has {{ .Version }}"), want: "blue has 1.36.3"},
		"nothing":           {problem: "message: required"},
		"no message":        {config: config(""), problem: "message: required"},
		"another kind":      {config: `{"apiVersion": "v1", "kind": "NoticeConfig"}`, problem: "apiVersion, kind: unknown"},
		"an unknown key":    {config: strings.Replace(config("Hello"), "message", "massage", 1), problem: "massage"},
		"an open template":  {config: config("{{ .Shoot"), problem: "message: no template"},
		"an unknown fact":   {config: config("{{ .Owner }}"), problem: "Owner"},
		"too many bytes":    {config: config(strings.Repeat("x", messageLimit+1)), problem: "at most 1024"},
		"all bytes allowed": {config: config(strings.Repeat("x", messageLimit)), want: strings.Repeat("x", messageLimit)},
	} {
		t.Run(name, func(t *testing.T) {
			var raw *runtime.RawExtension
			if tc.config != "" {
				raw = &runtime.RawExtension{Raw: []byte(tc.config)}
			}
			message, err := decode(raw)
			got := ""
			if err == nil {
				got, err = text(message, cluster)
			}
			if problem := ""; err != nil {
				problem = err.Error()
				if tc.problem == "" || !strings.Contains(problem, tc.problem) {
					t.Errorf("the problem is %q, want %q", problem, tc.problem)
				}
			} else if tc.problem != "" || got != tc.want {
				t.Errorf("the message is %q, want %q and the problem %q", got, tc.want, tc.problem)
			}
		})
	}
}

// TestExtensionConforms checks the extension against the contract.
func TestExtensionConforms(t *testing.T) {
	seed := fake.NewClientBuilder().WithScheme(newScheme()).
		WithStatusSubresource(&extensionsv1alpha1.Extension{}, &resourcesv1alpha1.ManagedResource{}).Build()
	reconciler := newReconciler(seed, clock.RealClock{})
	conformance.Run(t, conformance.Target{
		Client: seed, Namespace: "shoot--dev--blue", Finalizer: "extensions.gardener.cloud/notice",
		New: func() extensionsv1alpha1.Object {
			e := &extensionsv1alpha1.Extension{}
			e.Spec.Type = extensionType
			e.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(config("Welcome to {{ .Shoot }}."))}
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

func TestHealth(t *testing.T) {
	mr := &resourcesv1alpha1.ManagedResource{}
	mr.Name, mr.Namespace = resourceName, "shoot--dev--blue"
	e := &extensionsv1alpha1.Extension{}
	e.Name, e.Namespace = extensionType, mr.Namespace
	e.Status.LastOperation = &corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeCreate}
	seed := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(mr, e).
		WithStatusSubresource(&extensionsv1alpha1.Extension{}, &resourcesv1alpha1.ManagedResource{}).Build()
	h := &health{seed: seed, clock: clock.RealClock{}}
	for i, want := range []corev1beta1.ConditionStatus{corev1beta1.ConditionFalse, corev1beta1.ConditionTrue} {
		if i == 1 {
			applyResource(t, seed, mr.Namespace)
		}
		if err := seed.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Reconcile(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := seed.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
			t.Fatal(err)
		}
		got := e.Status.Conditions
		if len(got) != 1 || got[0].Type != corev1beta1.ShootSystemComponentsHealthy || got[0].Status != want {
			t.Errorf("step %d: conditions are %+v, want %s", i, got, want)
		}
	}
}
