package steps

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// TestRenewAccess: tokens of the Shoot are replaced when its key is, and those of the garden are not waited for.
func TestRenewAccess(t *testing.T) {
	const namespace = "shoot--dev--a"
	rotated := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	secret := func(name, class string, issued time.Time) *corev1.Secret {
		claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":%d}`, issued.Unix()))
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name,
				Labels:      map[string]string{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor},
				Annotations: map[string]string{resourcesv1alpha1.AnnotationTokenRenewTimestamp: "2030-01-01T10:00:00Z"},
			},
			Data: map[string][]byte{"token": []byte("x." + claims + ".y")},
		}
		if class != "" {
			s.Labels[resourcesv1alpha1.LabelClass] = class
		}
		return s
	}
	before, after := rotated.Add(-time.Hour), rotated.Add(time.Hour)
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		secret("old", "", before), secret("new", "shoot", after), secret("garden", resourcesv1alpha1.ClassGarden, before),
	).Build()
	values := &Values{Shoot: &corev1beta1.Shoot{}, Namespace: namespace}
	values.Shoot.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{
		ServiceAccountKey: &corev1beta1.ServiceAccountKeyRotation{LastInitiationTime: &metav1.Time{Time: rotated}},
	}}
	seed := &Seed{Client: c, namespace: namespace}
	outcome, err := ensureRenewedAccess(t.Context(), values, seed)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(outcome); !strings.Contains(text, "Tokens are being replaced: old") {
		t.Errorf("the outcome is %s", text)
	}
	for name, due := range map[string]bool{"old": true, "new": false, "garden": false} {
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
			t.Fatal(err)
		}
		if _, planned := s.Annotations[resourcesv1alpha1.AnnotationTokenRenewTimestamp]; planned == due {
			t.Errorf("the token in %s is due: %t, want %t", name, !planned, due)
		}
	}
	renewed := secret("old", "", after)
	if err := c.Update(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	outcome, err = ensureRenewedAccess(t.Context(), values, seed)
	if err != nil || fmt.Sprint(outcome) != fmt.Sprint(flow.Done()) {
		t.Errorf("with new tokens the outcome is %v, error %v", outcome, err)
	}
}
