package gardenaccess

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

func TestRenewal(t *testing.T) {
	const renew, other = corev1beta1.OperationRenewGardenAccessSecrets, corev1beta1.OperationRenewKubeconfig
	for name, tc := range map[string]struct {
		seed, operation, after string
		renewed                bool
	}{
		"requested":                  {seed: "own", operation: renew, renewed: true},
		"another operation":          {seed: "own", operation: other, after: other},
		"no operation":               {seed: "own"},
		"requested for another Seed": {seed: "other", operation: renew, after: renew},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, corev1beta1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{
				Name: tc.seed, Annotations: map[string]string{"kept": "", corev1beta1.AnnotationOperation: tc.operation},
			}}
			if tc.operation == "" {
				delete(seed.Annotations, corev1beta1.AnnotationOperation)
			}
			r := &Reconciler{
				Garden: fake.NewClientBuilder().WithScheme(scheme).WithObjects(seed).Build(),
				Seed: fake.NewClientBuilder().WithScheme(scheme).WithObjects(secretOf("extension-a", resourcesv1alpha1.ClassGarden),
					secretOf("extension-b", resourcesv1alpha1.ClassGarden), secretOf("shoot--a--b", "shoot")).Build(),
				SeedName: "own",
			}
			if _, err := r.Reconcile(t.Context(), seed); err != nil {
				t.Fatal(err)
			}
			for namespace, due := range map[string]bool{
				"extension-a": tc.renewed, "extension-b": tc.renewed, "shoot--a--b": false,
			} {
				secret := secretOf(namespace, "")
				if err := r.Seed.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
					t.Fatal(err)
				}
				_, planned := secret.Annotations[resourcesv1alpha1.AnnotationTokenRenewTimestamp]
				if planned == due || secret.Annotations[resourcesv1alpha1.AnnotationServiceAccountName] == "" {
					t.Errorf("%s: the annotations are %v, due: %t", namespace, secret.Annotations, due)
				}
			}
			if err := r.Garden.Get(context.Background(), client.ObjectKeyFromObject(seed), seed); err != nil {
				t.Fatal(err)
			}
			_, kept := seed.Annotations["kept"]
			if got := seed.Annotations[corev1beta1.AnnotationOperation]; got != tc.after || !kept {
				t.Errorf("the annotations of the Seed are %v, want operation %q", seed.Annotations, tc.after)
			}
		})
	}
}

func secretOf(namespace, class string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "access",
		Labels: map[string]string{
			resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor, resourcesv1alpha1.LabelClass: class,
		},
		Annotations: map[string]string{
			resourcesv1alpha1.AnnotationServiceAccountName:  "extension-x",
			resourcesv1alpha1.AnnotationTokenRenewTimestamp: "2030-01-01T00:00:00Z",
		},
	}}
}
