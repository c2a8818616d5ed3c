package landscape

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"hortus.dev/hortus/internal/garden/keyrotation"
)

func TestEncryptionSecretIsMadeOnce(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(newScheme()).Build()
	l := &installation{garden: &kubernetesCluster{client: c}}
	if err := l.ensureEncryptionSecret(t.Context(), "Zmlyc3Q="); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: gardenNamespace, Name: keyrotation.SecretName},
		secret); err != nil {
		t.Fatal(err)
	}
	secret.Data[keyrotation.KeyConfig] = []byte("rotated")
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := l.ensureEncryptionSecret(t.Context(), "Zmlyc3Q="); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	if got := string(secret.Data[keyrotation.KeyConfig]); got != "rotated" {
		t.Errorf("the rotated configuration became %q", got)
	}
}
