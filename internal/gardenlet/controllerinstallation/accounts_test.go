package controllerinstallation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestAccessEndsWithTheField: an extension that is not to have access any more loses it before its Secret is deleted.
func TestAccessEndsWithTheField(t *testing.T) {
	for name, tc := range map[string]struct{ had, kept bool }{
		"it had access":    {had: true},
		"it had no access": {kept: true}, // No request to the garden at each pass.
	} {
		t.Run(name, func(t *testing.T) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
				Namespace: "seed-blue", Name: "extension-notice-blue",
			}}
			seed := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
			if tc.had {
				seed.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
					Namespace: "extension-notice-blue", Name: "garden-access-extension",
				}})
			}
			r := &Reconciler{
				Garden: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(account).Build(),
				Seed:   seed.Build(), SeedName: "blue",
			}
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
