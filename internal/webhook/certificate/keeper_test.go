package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

const (
	host       = "gardener-resource-manager.garden.svc"
	secretName = "webhooks"
)

// site is a seed with the configuration of the webhooks.
type site struct {
	*Keeper
	clock *testingclock.FakeClock
}

func newSite() *site {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(configuration.ForSeed("garden", nil)).Build()
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &site{&Keeper{
		Client: c, Reader: c, Secrets: c, Clock: clock, Namespace: "garden", Secret: secretName,
		Service: configuration.ServiceName, Configuration: configuration.Name,
	}, clock}
}

func (s *site) reconcile(t *testing.T) time.Duration {
	t.Helper()
	result, err := s.Reconcile(t.Context(), reconcile.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// verify calls the server as an API server does that knows the configuration, and returns its certificate and CA.
func (s *site) verify(t *testing.T) (certificate, ca *x509.Certificate) {
	t.Helper()
	c := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: configuration.Name}, c); err != nil {
		t.Fatal(err)
	}
	pair, err := s.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Webhooks {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(w.ClientConfig.CABundle) {
			t.Fatalf("webhook %s has no CA", w.Name)
		}
		chains, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: s.clock.Now()})
		if err != nil {
			t.Fatalf("webhook %s: %v", w.Name, err)
		}
		ca = chains[0][1]
	}
	return pair.Leaf, ca
}

func TestCertificatesOverTime(t *testing.T) {
	for process, rows := range map[string][]certificates.Row{
		"the resource-manager": certificates.Garden, "provider-local": certificates.LandscapeOther,
	} {
		t.Run(process, func(t *testing.T) {
			s := newSite()
			serving, authority := "webhooks of "+process, "webhooks of "+process+", CA"
			watch := certificates.NewWatch(t, certificates.Named(rows, serving, authority), certificates.Day)
			cas := map[string]bool{}
			for end := s.clock.Now().Add(12 * certificates.Year); s.clock.Now().Before(end); {
				wait := s.reconcile(t)
				certificate, ca := s.verify(t)
				cas[string(ca.Raw)] = true
				watch.Use(serving, certificate, s.clock.Now())
				watch.Use(authority, ca, s.clock.Now())
				s.clock.Step(wait)
			}
			if n := watch.Done()[serving]; n < 50 {
				t.Errorf("the certificate was renewed %d times in 12 years, want at least 50", n)
			}
			if len(cas) != 2 {
				t.Errorf("%d CAs in 12 years, want 2", len(cas))
			}
		})
	}
}

func TestSecretIsRepaired(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"a key of another certificate": func(s *corev1.Secret) { s.Data[corev1.TLSPrivateKeyKey] = s.Data[keyCAPrivateKey] },
		"no certificate":               func(s *corev1.Secret) { delete(s.Data, corev1.TLSCertKey) },
		"no CA":                        func(s *corev1.Secret) { delete(s.Data, keyCA) },
		"nothing":                      func(s *corev1.Secret) { s.Data = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite()
			s.reconcile(t)
			secret := &corev1.Secret{}
			if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "garden", Name: secretName}, secret); err != nil {
				t.Fatal(err)
			}
			change(secret)
			if err := s.Client.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			s.reconcile(t)
			s.verify(t)
		})
	}
}

func TestConfigurationThatLostTheCAGetsItAgain(t *testing.T) {
	s := newSite()
	s.reconcile(t)
	lost := configuration.ForSeed("garden", nil)
	if err := s.Client.Patch(t.Context(), lost, client.Merge); err != nil {
		t.Fatal(err)
	}
	if err := s.Announced(httptest.NewRequest(http.MethodGet, "/readyz", nil)); err == nil {
		t.Error("ready without the CA")
	}
	s.reconcile(t)
	s.verify(t)
}

func TestConfigurationMayComeLater(t *testing.T) {
	s := newSite()
	missing := configuration.ForSeed("garden", nil)
	if err := s.Client.Delete(t.Context(), missing); err != nil {
		t.Fatal(err)
	}
	s.reconcile(t)
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(missing), missing); !apierrors.IsNotFound(err) {
		t.Fatalf("the keeper has made a configuration, or: %v", err)
	}
	request := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	if err := s.Announced(request); err == nil {
		t.Error("ready before the API server knows the webhooks")
	}
	if err := s.Client.Create(t.Context(), configuration.ForSeed("garden", nil)); err != nil {
		t.Fatal(err)
	}
	s.reconcile(t)
	s.verify(t)
	if err := s.Announced(request); err != nil {
		t.Error(err)
	}
}
