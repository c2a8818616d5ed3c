package steps

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/secretsmanager"
)

// TestCertificatesAreInTheTable: what is generated for a control plane is in the table of certificates, with its life, and nothing
// else is.
func TestCertificatesAreInTheTable(t *testing.T) {
	s := testScope("a")
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	manager, err := secretsmanager.New(t.Context(), c, testclock.NewFakePassiveClock(time.Unix(1e9, 0)), s.Namespace, SecretsIdentity)
	if err != nil {
		t.Fatal(err)
	}
	s.Secrets = manager
	for _, credential := range desiredCredentials(s) {
		if _, err := manager.Generate(t.Context(), credential.config, credential.opts); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.generateServerCertificate(t.Context(), "198.18.0.1"); err != nil {
		t.Fatal(err)
	}
	secrets := &corev1.SecretList{}
	if err := c.List(t.Context(), secrets, client.InNamespace(s.Namespace)); err != nil {
		t.Fatal(err)
	}
	lives := map[string]time.Duration{}
	for _, secret := range secrets.Items {
		if secret.Labels[secretsmanager.LabelBundleFor] != "" {
			continue
		}
		name := secret.Labels[secretsmanager.LabelName]
		lives[name] = 0
		for _, key := range []string{secretsmanager.DataCACert, secretsmanager.DataCert} { // The second counts if there are both.
			if cert, err := pki.ParseCert(secret.Data[key]); err == nil {
				lives[name] = certificates.LifeOf(cert)
			}
		}
	}
	certificates.Check(t, lives, certificates.ControlPlane)
}
