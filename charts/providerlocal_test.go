package charts_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

// renderProviderLocal renders the chart for the namespace extension-provider-local.
func renderProviderLocal(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	c, err := chart.LoadFS(charts.FS, "provider-local")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(c, chart.Release{Name: "provider-local", Namespace: "extension-provider-local"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestProviderLocalChangesItsShootsOnly(t *testing.T) {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{}
	for _, o := range renderProviderLocal(t) {
		if o.GetKind() != "MutatingWebhookConfiguration" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, c, true); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.Webhooks) != 2 {
		t.Fatalf("%d webhooks", len(c.Webhooks))
	}
	const role, provider = corev1beta1.LabelRole, corev1beta1.LabelShootProvider
	const mutated = extensionsv1alpha1.LabelMutatedByControlPlaneWebhook
	for _, webhook := range c.Webhooks {
		if service := webhook.ClientConfig.Service; service.Namespace != "extension-provider-local" {
			t.Errorf("%s is called in namespace %q", webhook.Name, service.Namespace)
		}
		for name, tc := range map[string]struct {
			selector *metav1.LabelSelector
			labels   labels.Set
			want     bool
		}{
			"of this provider": {webhook.NamespaceSelector, labels.Set{role: corev1beta1.RoleShoot, provider: "local"}, true},
			"of another one":   {webhook.NamespaceSelector, labels.Set{role: corev1beta1.RoleShoot, provider: "aws"}, false},
			"of no Shoot":      {webhook.NamespaceSelector, labels.Set{provider: "local"}, false},
			"for webhooks": {webhook.ObjectSelector,
				labels.Set{mutated: "true", "app": "machine-controller-manager"}, true},
			"for none": {webhook.ObjectSelector, labels.Set{"app": "machine-controller-manager"}, false},
		} {
			selector, err := metav1.LabelSelectorAsSelector(tc.selector)
			if err != nil {
				t.Fatal(err)
			}
			if got := selector.Matches(tc.labels); got != tc.want {
				t.Errorf("%s, %s: selected %t, want %t", webhook.Name, name, got, tc.want)
			}
		}
	}
}
