package access

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/csr"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/pki"
)

// TestCertificatesOverTime: a gardenlet always has a valid certificate, for all random times of the renewal, with a
// signer that always grants 365 days, and if nothing in the garden answers for the first month after the request.
func TestCertificatesOverTime(t *testing.T) {
	for name, tc := range map[string]struct {
		chance   float64
		last     time.Duration
		silent   time.Duration // The time in which requests are not answered.
		replaced int
	}{
		"13 months, renewed early":                        {chance: 0, last: 396 * day, replaced: 1},
		"13 months, renewed late":                         {chance: 0.999, last: 396 * day, replaced: 1},
		"13 months, renewed late, answered a month later": {chance: 0.999, last: 396 * day, silent: 30 * day, replaced: 1},
		"9 years": {chance: 0.5, last: 9 * certificates.Year, replaced: 10},
	} {
		t.Run(name, func(t *testing.T) {
			if replaced := moveGardenlet(t, tc.chance, tc.last, tc.silent); replaced != tc.replaced {
				t.Errorf("replaced %d times, want %d", replaced, tc.replaced)
			}
		})
	}
}

// moveGardenlet has a gardenlet check its certificate every day, and returns how often it was replaced.
func moveGardenlet(t *testing.T, chance float64, last, silent time.Duration) int {
	const seedName, row = "s", "gardenlet"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	clock := testclock.NewFakeClock(day0)
	ca, err := pki.NewCA("clients", clock)
	must(err)
	pair, err := ca.Issue(pki.Request{
		CommonName: corev1beta1.SeedUserPrefix + seedName, Organizations: []string{corev1beta1.SeedsGroup}, Usage: pki.Client,
		Validity: certificates.Year,
	})
	must(err)
	kubeconfig, err := pki.Kubeconfig{
		Name: "garden", Server: "https://garden.example", CAPEM: ca.CertPEM, Client: pair,
	}.Render()
	must(err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(os.WriteFile(file, kubeconfig, 0o600))

	scheme := runtime.NewScheme()
	must(errors.Join(clientgoscheme.AddToScheme(scheme), corev1beta1.AddToScheme(scheme)))
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: seedName}}
	garden := fake.NewClientBuilder().WithScheme(scheme).WithObjects(seed).
		WithStatusSubresource(&certificatesv1.CertificateSigningRequest{}).Build()
	connection := &config.GardenClientConnection{ClientConnection: config.ClientConnection{Kubeconfig: file}}
	access, err := Open(t.Context(), connection, "own", garden, "test", clock)
	must(err)
	r := &Reconciler{
		Access: access, Garden: garden, Events: events.NewFakeRecorder(1000), Clock: clock,
		Chance:   func() float64 { return chance },
		SeedName: seedName, Window: Window{80, 90},
	}
	// sign answers the open request with a certificate for 365 days.
	sign := func() {
		request := &certificatesv1.CertificateSigningRequest{}
		must(garden.Get(t.Context(), client.ObjectKey{Name: r.pending().name}, request))
		parsed, err := csr.Parse(request.Spec.Request)
		must(err)
		request.Status.Certificate, err = ca.Sign(pki.Request{
			CommonName: parsed.Subject.CommonName, Organizations: parsed.Subject.Organization, Usage: pki.Client,
			Validity: certificates.Year,
		}, parsed.PublicKey)
		must(err)
		must(garden.Status().Update(t.Context(), request))
	}
	step := func() {
		_, err := r.Reconcile(t.Context(), seed.DeepCopy())
		must(err)
	}
	// The window is a tenth of the lifetime.
	watch := certificates.NewWatch(t, certificates.Named(certificates.Garden, row), certificates.Year/10+day+silent)
	var asked time.Time // Creation time of the unanswered request.
	for at := time.Duration(0); at <= last; at += day {
		clock.SetTime(day0.Add(at))
		watch.Use(row, access.used.Load(), clock.Now())
		step()
		if r.pending() == nil {
			asked = time.Time{}
			continue
		}
		if asked.IsZero() {
			asked = clock.Now()
		}
		if clock.Since(asked) >= silent {
			sign()
			step()
			watch.Use(row, access.used.Load(), clock.Now())
		}
	}
	return watch.Done()[row]
}
