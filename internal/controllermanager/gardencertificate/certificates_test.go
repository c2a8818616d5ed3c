package gardencertificate

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/pki"
)

// garden has a Secret like that of the chart.
type garden struct {
	*Reconciler
	clock *testingclock.FakeClock
}

func newGarden(t *testing.T) *garden {
	t.Helper()
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ca, err := pki.NewCA("hortus-garden", clock)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data: map[string][]byte{keyCA: ca.CertPEM, keyCAPrivateKey: ca.KeyPEM}}
	for _, name := range leaves {
		pair, err := ca.Issue(pki.Request{CommonName: name, DNSNames: []string{name + ".garden.svc"}, Usage: pki.Server,
			Validity: validity})
		if err != nil {
			t.Fatal(err)
		}
		secret.Data[name+".crt"], secret.Data[name+".key"] = pair.CertPEM, pair.KeyPEM
	}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(secret).Build()
	return &garden{&Reconciler{Garden: c, Clock: clock}, clock}
}

func (g *garden) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := g.Garden.Get(t.Context(), key, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (g *garden) reconcile(t *testing.T) time.Duration {
	t.Helper()
	result, err := g.Reconcile(t.Context(), reconcile.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

func TestCertificatesOverTime(t *testing.T) {
	g := newGarden(t)
	rows := certificates.Named(certificates.Garden, "hortus-certificates, CA", "hortus-certificates")
	watch := certificates.NewWatch(t, rows, certificates.Day)
	data := g.secret(t).Data
	ca, err := pki.LoadCA(data[keyCA], data[keyCAPrivateKey], g.clock)
	if err != nil {
		t.Fatal(err)
	}
	watch.Use("hortus-certificates, CA", ca.Cert(), g.clock.Now())
	for end := ca.Cert().NotAfter.Add(-certificates.Day); g.clock.Now().Before(end); {
		var next time.Time
		if data, next, err = renew(data, g.clock); err != nil {
			t.Fatal(err)
		}
		for _, name := range leaves {
			cert, err := pki.ParseCert(data[name+".crt"])
			if err != nil {
				t.Fatal(err)
			}
			if err := cert.CheckSignatureFrom(ca.Cert()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if diff := cmp.Diff([]string{name + ".garden.svc"}, cert.DNSNames); diff != "" {
				t.Errorf("names of %s (-want +got):\n%s", name, diff)
			}
			if name == "etcd" {
				watch.Use("hortus-certificates", cert, g.clock.Now())
			}
		}
		g.clock.SetTime(next)
	}
	if n := watch.Done()["hortus-certificates"]; n < 10 {
		t.Errorf("the certificates were renewed %d times in 10 years, want at least 10", n)
	}
}

func TestControllerRenewsWhatIsDue(t *testing.T) {
	g := newGarden(t)
	before := g.secret(t)
	if wait := g.reconcile(t); wait != checkPeriod {
		t.Errorf("the next check is after %s, want %s", wait, checkPeriod)
	}
	if now := g.secret(t); now.ResourceVersion != before.ResourceVersion {
		t.Error("the Secret is written while nothing is due")
	}
	g.clock.Step(300 * certificates.Day)
	g.reconcile(t)
	now := g.secret(t)
	for _, name := range leaves {
		if string(now.Data[name+".crt"]) == string(before.Data[name+".crt"]) {
			t.Errorf("%s is not renewed", name)
		}
		if _, err := tls.X509KeyPair(now.Data[name+".crt"], now.Data[name+".key"]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before.Data[keyCA], now.Data[keyCA]); diff != "" {
		t.Errorf("the authority has changed:\n%s", diff)
	}
}

func TestCertificatesOfOthersStay(t *testing.T) {
	g := newGarden(t)
	secret := g.secret(t)
	delete(secret.Data, keyCAPrivateKey)
	if err := g.Garden.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	g.clock.Step(certificates.Year)
	g.reconcile(t)
	if diff := cmp.Diff(secret.Data, g.secret(t).Data); diff != "" {
		t.Errorf("certificates that an operator renews have changed:\n%s", diff)
	}
	if err := g.Garden.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	g.reconcile(t)
	if err := g.Garden.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); client.IgnoreNotFound(err) != nil ||
		err == nil {
		t.Errorf("a Secret that the chart has not created appears: %v", err)
	}
}
