package csr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
)

const (
	own   = corev1beta1.SeedUserPrefix + "own"
	other = corev1beta1.SeedUserPrefix + "other"
)

// renewal is the request of a gardenlet, with changes.
func renewal(
	t *testing.T, change func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequestSpec),
) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	wish := &x509.CertificateRequest{Subject: pkix.Name{CommonName: own, Organization: []string{corev1beta1.SeedsGroup}}}
	spec := certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientSignerName, Username: own,
		Groups: []string{corev1beta1.SeedsGroup, "system:authenticated"},
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}
	if change != nil {
		change(wish, &spec)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, wish, key)
	if err != nil {
		t.Fatal(err)
	}
	spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return &certificatesv1.CertificateSigningRequest{Spec: spec}
}

func TestDecide(t *testing.T) {
	type (
		wish = x509.CertificateRequest
		spec = certificatesv1.CertificateSigningRequestSpec
	)
	for name, tc := range map[string]struct {
		change func(*wish, *spec)
		joins  string // The seed of the requester's token.
		// The ManagedSeed whose gardenlet the requester installs.
		installs string
		gone     bool // The Seed, or the token.
		ignore   bool
		denied   string // Part of the message; empty means approved.
	}{
		"renewal": {},
		"a first certificate": {joins: "own", change: func(_ *wish, s *spec) {
			s.Username, s.Groups = "system:bootstrap:abcdef", []string{bootstraptoken.Group}
		}},
		"a first certificate of another seed": {joins: "other", change: func(_ *wish, s *spec) {
			s.Username, s.Groups = "system:bootstrap:abcdef", []string{bootstraptoken.Group}
		}, denied: "common name"},
		"a first certificate with a deleted token": {joins: "own", gone: true, change: func(_ *wish, s *spec) {
			s.Username, s.Groups = "system:bootstrap:abcdef", []string{bootstraptoken.Group}
		}, denied: "does not exist"},
		"a token for another purpose": {change: func(_ *wish, s *spec) {
			s.Username, s.Groups = "system:bootstrap:abcdef", []string{"system:bootstrappers"}
		}, ignore: true},
		"another seed": {
			change: func(w *wish, _ *spec) { w.Subject.CommonName = other }, denied: "common name",
		},
		"the gardenlet of a ManagedSeed": {
			installs: "other", change: func(w *wish, _ *spec) { w.Subject.CommonName = other },
		},
		"the gardenlet of another ManagedSeed": {
			installs: "third", change: func(w *wish, _ *spec) { w.Subject.CommonName = other }, denied: "common name",
		},
		"its own, while it installs another one": {installs: "third"},
		"the gardenlet of a ManagedSeed, with more organizations": {
			installs: "other", change: func(w *wish, _ *spec) {
				w.Subject.CommonName, w.Subject.Organization = other, append(w.Subject.Organization, "system:masters")
			}, denied: "organization",
		},
		"by another seed": {change: func(_ *wish, s *spec) { s.Username = other }, denied: "common name"},
		"by an operator": {change: func(_ *wish, s *spec) {
			s.Username, s.Groups = "admin", []string{"system:masters"}
		}, ignore: true},
		"by a user named like a seed": {
			change: func(_ *wish, s *spec) { s.Groups = []string{"system:authenticated"} }, ignore: true,
		},
		"by an extension": {
			change: func(_ *wish, s *spec) { s.Username = "system:serviceaccount:seed-own:extension" }, ignore: true,
		},
		"without a name of a seed": {change: func(w *wish, s *spec) {
			w.Subject.CommonName, s.Username = corev1beta1.SeedUserPrefix, corev1beta1.SeedUserPrefix
		}, ignore: true},
		"the group for another user": {
			change: func(w *wish, _ *spec) { w.Subject.CommonName = "admin" }, denied: "common name",
		},
		"more organizations": {
			change: func(w *wish, _ *spec) { w.Subject.Organization = append(w.Subject.Organization, "system:masters") },
			denied: "organization",
		},
		"no organization": {
			change: func(w *wish, _ *spec) { w.Subject.Organization = nil }, denied: "organization",
		},
		"a DNS name": {
			change: func(w *wish, _ *spec) { w.DNSNames = []string{"a.example"} }, denied: "alternative names",
		},
		"an address": {
			change: func(w *wish, _ *spec) { w.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }, denied: "alternative names",
		},
		"an email address": {
			change: func(w *wish, _ *spec) { w.EmailAddresses = []string{"a@example.com"} }, denied: "alternative names",
		},
		"a URI": {
			change: func(w *wish, _ *spec) { w.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }, denied: "alternative names",
		},
		"usable as a server": {
			change: func(_ *wish, s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageServerAuth) }, denied: "usages",
		},
		"usable to sign": {
			change: func(_ *wish, s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageCertSign) }, denied: "usages",
		},
		"not usable as a client": {change: func(_ *wish, s *spec) { s.Usages = s.Usages[:1] }, denied: "usages"},
		"the Seed is gone":       {gone: true, denied: "does not exist"},
		"another signer":         {change: func(_ *wish, s *spec) { s.SignerName = "example.com/signer" }, ignore: true},
		"the signer of kubelets": {
			change: func(_ *wish, s *spec) { s.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName }, ignore: true,
		},
		"nothing of gardenlets": {change: func(w *wish, _ *spec) {
			w.Subject.CommonName, w.Subject.Organization = "alice", nil
		}, ignore: true},
		"a gardenlet as another user": {change: func(w *wish, _ *spec) {
			w.Subject.CommonName, w.Subject.Organization = "alice", []string{"system:masters"}
		}, ignore: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := renewal(t, tc.change)
			if got := ours(r); got == tc.ignore {
				t.Fatalf("ours() = %t", got)
			}
			if tc.ignore {
				return
			}
			by := requester{seed: seedOf(r)}
			if tc.joins != "" {
				by = requester{seed: tc.joins, joins: true}
			}
			by.installs = tc.installs
			if tc.gone {
				by.problem = "it does not exist"
			}
			approved, message := decide(r, by)
			if approved != (tc.denied == "") || !strings.Contains(message, tc.denied) {
				t.Errorf("decide() = %t, %q; want denial %q", approved, message, tc.denied)
			}
		})
	}
}

func TestWhatIsDecidedIsLeftAlone(t *testing.T) {
	for _, decided := range []certificatesv1.RequestConditionType{
		certificatesv1.CertificateApproved, certificatesv1.CertificateDenied,
	} {
		r := renewal(t, nil)
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: decided}}
		if ours(r) {
			t.Errorf("a request that is %s is decided again", decided)
		}
	}
	r := renewal(t, nil)
	r.Status.Certificate = []byte("certificate")
	if ours(r) {
		t.Error("a request that is signed is decided again")
	}
}
