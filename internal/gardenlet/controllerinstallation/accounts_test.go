package controllerinstallation

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// TestAccessEndsWithTheField: an extension that is not to have access any more loses it before its Secret is deleted.
// The token is removed before it becomes invalid.
func TestAccessEndsWithTheField(t *testing.T) {
	for name, tc := range map[string]struct{ had, kept bool }{
		"it had access":    {had: true},
		"it had no access": {kept: true}, // No request to the garden at each pass.
	} {
		t.Run(name, func(t *testing.T) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
				Namespace: "seed-blue", Name: "extension-notice-blue",
			}}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "extension-notice-blue", Name: "garden-access-extension",
					Annotations: map[string]string{
						resourcesv1alpha1.AnnotationServiceAccountName:  "extension-notice-blue",
						resourcesv1alpha1.AnnotationTokenRenewTimestamp: "2030-01-01T00:00:00Z",
					},
				},
				Data: map[string][]byte{"token": []byte("t"), "other": []byte("o")},
			}
			seed := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
			if tc.had {
				seed.WithObjects(secret)
			}
			r := &Reconciler{Seed: seed.Build(), SeedName: "blue"}
			r.Garden = gardenBuilder(t).WithObjects(account).WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					if err := r.Seed.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
						t.Errorf("the ServiceAccount is deleted when the Secret cannot be read: %v", err)
					}
					want := map[string]string{resourcesv1alpha1.AnnotationServiceAccountName: "extension-notice-blue"}
					if diff := cmp.Diff(want, secret.Annotations); diff != "" || len(secret.Data) != 1 {
						t.Errorf("the Secret has data %q, annotations (-want +got):\n%s", secret.Data, diff)
					}
					return c.Delete(ctx, o, opts...)
				},
			}).Build()
			if err := r.endAccess(t.Context(), noticeInstallation); err != nil {
				t.Fatal(err)
			}
			err := r.Garden.Get(t.Context(), client.ObjectKeyFromObject(account), account)
			if got := !apierrors.IsNotFound(err); got != tc.kept {
				t.Errorf("the ServiceAccount is there: %t, want %t", got, tc.kept)
			}
		})
	}
}
