package test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/controllermanager/gardencertificate"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/sim"
)

// The certificates of the garden are valid at any time, each with its own key, while two leaders renew them and an
// operator adds keys to their Secret.
func TestSimulateGardenCertificates(t *testing.T) {
	certificates := named[corev1.Secret]("garden", gardencertificate.SecretName)
	run := func(p *sim.Process) error {
		return (&gardencertificate.Reconciler{Garden: p.GetClient(), Clock: clockOf(p)}).AddToManager(p)
	}
	simulate(t, run, func(w *sim.World, garden *sim.Cluster) {
		w.Process("former leader", garden, run)
		secret := certificates.DeepCopy()
		secret.Data = issued(t, "apiserver", "etcd", "etcd-client")
		garden.Add(secret)

		read := func() (*corev1.Secret, error) {
			s := certificates.DeepCopy()
			return s, is(garden.Exists(s), "the Secret is gone")
		}
		w.Always("all certificates are valid", func() error {
			s, err := read()
			if err != nil {
				return err
			}
			return valid(s.Data)
		})
		w.Change("an operator adds a key", garden, func(ctx context.Context, c client.Client) error {
			s, err := read()
			if err != nil {
				return err
			}
			patch := client.MergeFrom(s.DeepCopy())
			s.Data["added"] = []byte("by an operator")
			return c.Patch(ctx, s, patch)
		})
		before := secret.Data
		w.Faults(80)
		w.Eventually(30, "all certificates are renewed", func() error {
			s, err := read()
			if err != nil {
				return err
			}
			for _, name := range []string{"apiserver.crt", "etcd.crt", "etcd-client.crt"} {
				if string(s.Data[name]) == string(before[name]) {
					return fmt.Errorf("%s is the same", name)
				}
			}
			return is(string(s.Data["added"]) == "by an operator", "the operator's key is gone")
		})
		w.Idle(80 * 24 * time.Hour) // The former certificates end.
	})
}

// issued returns what the chart of the garden has created 291 days ago. Certificates are renewed after 292 days.
func issued(t *testing.T, names ...string) map[string][]byte {
	t.Helper()
	then := clocktesting.NewFakePassiveClock(time.Now().Add(-291 * 24 * time.Hour))
	ca, err := pki.NewCA("hortus-garden", then)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{"ca.crt": ca.CertPEM, "ca.key": ca.KeyPEM}
	for _, name := range names {
		pair, err := ca.Issue(pki.Request{CommonName: name, DNSNames: []string{name + ".garden.svc"},
			Usage: pki.Server | pki.Client, Validity: 365 * 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		data[name+".crt"], data[name+".key"] = pair.CertPEM, pair.KeyPEM
	}
	return data
}

// valid verifies the certificates as a client does that connects now.
func valid(data map[string][]byte) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data["ca.crt"]) {
		return fmt.Errorf("there is no CA")
	}
	for _, name := range []string{"apiserver", "etcd", "etcd-client"} {
		pair, err := tls.X509KeyPair(data[name+".crt"], data[name+".key"])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		options := x509.VerifyOptions{Roots: roots, DNSName: name + ".garden.svc", CurrentTime: time.Now()}
		if _, err := pair.Leaf.Verify(options); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
