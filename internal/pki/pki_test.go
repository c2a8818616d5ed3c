package pki

import (
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	testclock "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newTestCA(t *testing.T) *CA {
	t.Helper()
	ca, err := NewCA("test", testclock.NewFakePassiveClock(start))
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestIssue(t *testing.T) {
	ca := newTestCA(t)
	for name, tc := range map[string]struct {
		request Request
		usage   x509.ExtKeyUsage
		refused x509.ExtKeyUsage
		end     time.Time
	}{
		"a server's certificate is valid as long as the CA without a requested validity": {
			request: Request{
				CommonName: "api", DNSNames: []string{"api.example"}, IPs: []net.IP{net.IPv4(10, 0, 0, 1)}, Usage: Server,
			},
			usage: x509.ExtKeyUsageServerAuth, refused: x509.ExtKeyUsageClientAuth,
			end: start.Add(caValidity),
		},
		"a client's certificate has the requested validity": {
			request: Request{
				CommonName: "admin", Organizations: []string{"system:masters"}, DNSNames: []string{"api.example"}, Usage: Client,
				Validity: time.Hour,
			},
			usage: x509.ExtKeyUsageClientAuth, refused: x509.ExtKeyUsageServerAuth,
			end: start.Add(time.Hour),
		},
		"no certificate outlives its CA": {
			request: Request{CommonName: "peer", DNSNames: []string{"api.example"}, Usage: Client, Validity: 20 * caValidity},
			usage:   x509.ExtKeyUsageClientAuth, refused: x509.ExtKeyUsageServerAuth,
			end: start.Add(caValidity),
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := ca.Issue(tc.request)
			if err != nil {
				t.Fatal(err)
			}
			cert, err := ParseCert(pair.CertPEM)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AddCert(ca.Cert())
			options := x509.VerifyOptions{
				Roots: roots, DNSName: "api.example", CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{tc.usage},
			}
			if _, err := cert.Verify(options); err != nil {
				t.Errorf("Verify: %v", err)
			}
			options.KeyUsages = []x509.ExtKeyUsage{tc.refused}
			if _, err := cert.Verify(options); err == nil {
				t.Error("Verify accepts the certificate for the wrong usage")
			}
			if diff := cmp.Diff(tc.request.Organizations, cert.Subject.Organization); diff != "" {
				t.Errorf("organizations mismatch (-want +got):\n%s", diff)
			}
			if !cert.NotAfter.Equal(tc.end) {
				t.Errorf("NotAfter = %s, want %s", cert.NotAfter, tc.end)
			}
			if _, err := keyutil.ParsePrivateKeyPEM(pair.KeyPEM); err != nil {
				t.Errorf("key: %v", err)
			}
		})
	}
}

func TestIssueNeedsAUsage(t *testing.T) {
	if _, err := newTestCA(t).Issue(Request{CommonName: "x"}); err == nil {
		t.Error("Issue returned a certificate without a usage")
	}
}

func TestLoadCA(t *testing.T) {
	ca, other, clock := newTestCA(t), newTestCA(t), testclock.NewFakePassiveClock(start)
	loaded, err := LoadCA(ca.CertPEM, ca.KeyPEM, clock)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := loaded.Issue(Request{CommonName: "x", Usage: Client})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ParseCert(pair.CertPEM)
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.CheckSignatureFrom(ca.Cert()); err != nil {
		t.Errorf("a loaded CA signs differently: %v", err)
	}
	for name, bad := range map[string]KeyPair{
		"the key of another CA":    {CertPEM: ca.CertPEM, KeyPEM: other.KeyPEM},
		"no certificate":           {CertPEM: ca.KeyPEM, KeyPEM: ca.KeyPEM},
		"no key":                   {CertPEM: ca.CertPEM, KeyPEM: ca.CertPEM},
		"a leaf instead of the CA": *pair,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := LoadCA(bad.CertPEM, bad.KeyPEM, clock); err == nil {
				t.Error("LoadCA succeeded")
			}
		})
	}
}

func TestNewSigningKey(t *testing.T) {
	private, public, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := keyutil.ParsePublicKeysPEM(public)
	if err != nil || len(keys) != 1 {
		t.Fatalf("public key: %d keys, %v", len(keys), err)
	}
	if _, err := keyutil.ParsePrivateKeyPEM(private); err != nil {
		t.Errorf("private key: %v", err)
	}
}

func TestKubeconfig(t *testing.T) {
	ca := newTestCA(t)
	client, err := ca.Issue(Request{CommonName: "admin", Usage: Client})
	if err != nil {
		t.Fatal(err)
	}
	out, err := Kubeconfig{
		Server: "https://198.18.0.5", TLSServerName: "api.example", CAPEM: ca.CertPEM, Client: client,
	}.Render()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(out)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{config.Host, config.ServerName, string(config.CAData), string(config.CertData), string(config.KeyData)}
	want := []string{
		"https://198.18.0.5", "api.example", string(ca.CertPEM), string(client.CertPEM), string(client.KeyPEM),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rest config mismatch (-want +got):\n%s", diff)
	}
}
