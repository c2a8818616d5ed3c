package shoot

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// TestCertificatesUntil: a health check reveals the expirations of both certificates, without further requests.
func TestCertificatesUntil(t *testing.T) {
	ca, err := pki.NewCA("ca", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	issue := func(usage pki.Usage, life time.Duration) (*pki.KeyPair, time.Time) {
		pair, err := ca.Issue(pki.Request{
			CommonName: "a", Usage: usage, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Validity: life,
		})
		if err != nil {
			t.Fatal(err)
		}
		cert, err := pki.ParseCert(pair.CertPEM)
		if err != nil {
			t.Fatal(err)
		}
		return pair, cert.NotAfter
	}
	served, serverEnd := issue(pki.Server, time.Hour)
	shown, clientEnd := issue(pki.Client, 2*time.Hour)
	pair, err := tls.X509KeyPair(served.CertPEM, served.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	requests := atomic.Int32{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	kubeconfig, err := pki.Kubeconfig{Name: "a", Server: server.URL, CAPEM: ca.CertPEM, Client: shown}.Render()
	if err != nil {
		t.Fatal(err)
	}

	c := &Connector{Scheme: scheme.Scheme}
	if s, own := c.CertificatesUntil(kubeconfig); !s.IsZero() || !own.Equal(clientEnd) {
		t.Errorf("before the first answer: %s and %s, want none and %s", s, own, clientEnd)
	}
	if status, err := c.Status(t.Context(), kubeconfig); status != http.StatusOK || err != nil {
		t.Fatalf("status %d: %v", status, err)
	}
	before := requests.Load()
	if s, own := c.CertificatesUntil(kubeconfig); !s.Equal(serverEnd) || !own.Equal(clientEnd) {
		t.Errorf("after an answer: %s and %s, want %s and %s", s, own, serverEnd, clientEnd)
	}
	if requests.Load() != before {
		t.Error("reading the expirations sends a request")
	}
}
