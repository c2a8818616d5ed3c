package steps

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/secretsmanager"
)

// TestRenewAccess: tokens of the Shoot are replaced when its key is, whatever form they have and whenever they were
// issued, and those of the garden are not waited for.
func TestRenewAccess(t *testing.T) {
	const namespace = "shoot--dev--a"
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	manager, err := secretsmanager.New(t.Context(), c, clocktesting.NewFakeClock(now), namespace, "a")
	if err != nil {
		t.Fatal(err)
	}
	manager.RSABits = secretsmanager.TestRSABits
	key, err := manager.Generate(t.Context(), secretsmanager.RSAKey{Name: nameServiceAccountKey},
		secretsmanager.Options{Persist: true})
	if err != nil {
		t.Fatal(err)
	}
	values, keys := &Values{Namespace: namespace}, Secrets{Manager: manager, namespace: namespace}
	seed := &SeedNamespace{Client: c, namespace: namespace}
	const due = "due"
	renewal := func(name string) string {
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
			t.Fatal(err)
		}
		if at := s.Annotations[resourcesv1alpha1.AnnotationTokenRenewTimestamp]; at != "" {
			return at
		}
		return due
	}
	const later = "2030-01-01T10:00:00Z"
	secrets := []struct {
		name, class string
		annotations map[string]string
		data        map[string][]byte
		want        string // The annotation afterwards.
	}{
		{"token", "", map[string]string{resourcesv1alpha1.AnnotationTokenRenewTimestamp: later},
			map[string][]byte{"token": []byte("a.b.c")}, due},
		{"kubeconfig", "shoot", map[string]string{resourcesv1alpha1.AnnotationTokenRenewTimestamp: later},
			map[string][]byte{"kubeconfig": []byte("{}")}, due},
		{"in-the-shoot", "", map[string]string{resourcesv1alpha1.AnnotationTokenRenewTimestamp: later}, nil, due},
		{"of-an-earlier-rotation", "", map[string]string{
			resourcesv1alpha1.AnnotationTokenRenewTimestamp: later, annotationSignedBy: "service-account-key-1",
		}, nil, due},
		{"requested", "", map[string]string{annotationSignedBy: key.Name}, nil, due},
		{"new", "", map[string]string{
			resourcesv1alpha1.AnnotationTokenRenewTimestamp: later, annotationSignedBy: key.Name,
		}, nil, later},
		{"not-issued-yet", "", nil, nil, due},
		{"garden", resourcesv1alpha1.ClassGarden,
			map[string]string{resourcesv1alpha1.AnnotationTokenRenewTimestamp: later}, nil, later},
	}
	var waiting []string
	for _, tc := range secrets {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: tc.name, Annotations: tc.annotations,
				Labels: map[string]string{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor},
			},
			Data: tc.data,
		}
		if tc.class != "" {
			s.Labels[resourcesv1alpha1.LabelClass] = tc.class
		}
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if tc.want == due && tc.name != "not-issued-yet" {
			waiting = append(waiting, tc.name)
		}
	}
	slices.Sort(waiting)
	for range 2 { // The second pass waits as well, and requests nothing.
		outcome, err := ensureRenewedAccess(t.Context(), values, seed, keys)
		if err != nil {
			t.Fatal(err)
		}
		want := "Tokens are being replaced: " + strings.Join(waiting, ", ")
		if text := fmt.Sprint(outcome); !strings.Contains(text, want) {
			t.Errorf("the outcome is %s, want %q", text, want)
		}
		for _, tc := range secrets {
			if got := renewal(tc.name); got != tc.want {
				t.Errorf("the token in %s is renewed at %q, want %q", tc.name, got, tc.want)
			}
		}
	}
	for _, name := range waiting { // As the resource-manager does with a new token.
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
			t.Fatal(err)
		}
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, resourcesv1alpha1.AnnotationTokenRenewTimestamp, later)
		if err := c.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	outcome, err := ensureRenewedAccess(t.Context(), values, seed, keys)
	if err != nil || fmt.Sprint(outcome) != fmt.Sprint(flow.Done()) {
		t.Errorf("with new tokens the outcome is %v, error %v", outcome, err)
	}
}

// TestAccessIsRenewedByNewAPIServers: API servers with the old key are gone before new tokens are requested.
func TestAccessIsRenewedByNewAPIServers(t *testing.T) {
	if !slices.Contains(RenewAccess.After, KubeAPIServerReady) {
		t.Error("new tokens may be signed with the old key")
	}
}
