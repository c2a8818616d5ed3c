package nodeagent

import (
	"crypto/x509"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/pki"
)

// TestCertificatesOverTime: a node agent has a valid certificate for 9 years, as long as no other CA is needed, even if
// it checks it only once a day.
func TestCertificatesOverTime(t *testing.T) {
	begin := time.Unix(2e9, 0)
	clock := testclock.NewFakePassiveClock(begin)
	ca, err := pki.NewCA("clients", clock)
	if err != nil {
		t.Fatal(err)
	}
	// The controller manager signs for a year.
	sign := func() *x509.Certificate {
		pair, err := ca.Issue(pki.Request{CommonName: "node agent", Usage: pki.Client, Validity: certificates.Year})
		if err != nil {
			t.Fatal(err)
		}
		cert, err := pki.ParseCert(pair.CertPEM)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	const name = "node agent"
	watch := certificates.NewWatch(t, certificates.Named(certificates.Shoot, name), certificates.Day)
	cert := sign()
	for at := time.Duration(0); at < 9*certificates.Year; at += certificates.Day {
		clock.SetTime(begin.Add(at))
		watch.Use(name, cert, clock.Now())
		if !clock.Now().Before(renewAt(cert)) {
			cert = sign()
			watch.Use(name, cert, clock.Now())
		}
	}
	if replaced := watch.Done()[name]; replaced != 11 { // After 80 % of a year each.
		t.Errorf("replaced %d times, want 11", replaced)
	}
}
