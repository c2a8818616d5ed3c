package steps

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/secretsmanager"
)

// TestCertificatesAreInTheTable: the table of certificates has exactly the certificates of a control plane, with their
// validity.
func TestCertificatesAreInTheTable(t *testing.T) {
	s := testScope("a")
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	manager, err := secretsmanager.New(t.Context(), c, testclock.NewFakePassiveClock(time.Unix(1e9, 0)), s.Namespace,
		SecretsIdentity)
	if err != nil {
		t.Fatal(err)
	}
	manager.RSABits = secretsmanager.TestRSABits
	s.Secrets = manager
	for _, credential := range desiredCredentials(&s.Values) {
		if _, err := manager.Generate(t.Context(), credential.config, credential.opts); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := generateServerCertificate(t.Context(), &s.Values, get[Secrets](s), "198.18.0.1"); err != nil {
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
		for _, key := range []string{secretsmanager.DataCACert, secretsmanager.DataCert} {
			// The second counts if there are both.
			if cert, err := pki.ParseCert(secret.Data[key]); err == nil {
				lives[name] = certificates.LifeOf(cert)
			}
		}
	}
	certificates.Check(t, lives, certificates.ControlPlane)
}

// aging is a control plane with certificates only, and a clock.
type aging struct {
	t     *testing.T
	scope *Scope
	seed  client.Client
	begin time.Time
	clock *testclock.FakePassiveClock
	watch *certificates.Watch
	// used are the certificates in use since the last reconciliation.
	used map[string]*x509.Certificate
}

// newAging creates a control plane. within bounds the delay of replacements after the time in the table.
func newAging(t *testing.T, within time.Duration) *aging {
	t.Helper()
	begin := time.Unix(2e9, 0)
	a := &aging{
		t: t, scope: testScope("a"), seed: fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), begin: begin,
		clock: testclock.NewFakePassiveClock(begin), watch: certificates.NewWatch(t, certificates.ControlPlane, within),
	}
	a.reconcile(true)
	return a
}

// reconcile generates everything as a reconciliation does, and deletes what is no longer in use.
func (a *aging) reconcile(succeeds bool) {
	a.t.Helper()
	must := func(err error) {
		a.t.Helper()
		if err != nil {
			a.t.Fatalf("%s: %v", a.clock.Now(), err)
		}
	}
	ctx := a.t.Context()
	manager, err := secretsmanager.New(ctx, a.seed, a.clock, a.scope.Namespace, SecretsIdentity)
	must(err)
	manager.RSABits = secretsmanager.TestRSABits
	a.scope.Secrets = manager
	var secrets []*corev1.Secret
	for _, c := range desiredCredentials(&a.scope.Values) {
		secret, err := manager.Generate(ctx, c.config, c.opts)
		must(err)
		secrets = append(secrets, secret)
	}
	server, err := generateServerCertificate(ctx, &a.scope.Values, get[Secrets](a.scope), "198.18.0.1")
	must(err)
	if succeeds {
		must(manager.Cleanup(ctx))
	}
	a.used = map[string]*x509.Certificate{}
	for _, secret := range append(secrets, server) {
		for _, key := range []string{secretsmanager.DataCACert, secretsmanager.DataCert} {
			// The second counts if there are both.
			if cert, err := pki.ParseCert(secret.Data[key]); err == nil {
				a.used[secret.Labels[secretsmanager.LabelName]] = cert
			}
		}
	}
	a.look()
}

// look returns the certificates in use.
func (a *aging) look() {
	a.t.Helper()
	for name, cert := range a.used {
		a.watch.Use(name, cert, a.clock.Now())
	}
}

// at moves the clock.
func (a *aging) at(since time.Duration) {
	a.t.Helper()
	a.clock.SetTime(a.begin.Add(since))
	a.look()
}

// done checks how often every certificate was replaced.
func (a *aging) done(want int) {
	a.t.Helper()
	replaced := a.watch.Done()
	for _, row := range certificates.ControlPlane {
		for _, name := range row.Names {
			if row.SignedBy != "" && replaced[name] != want {
				a.t.Errorf("%q was replaced %d times, want %d", name, replaced[name], want)
			}
		}
	}
}

// TestCertificatesOverTime: a control plane that is reconciled every day has valid certificates for 13 months, and for
// 11 years if its owner rotates the CAs in the year in which a constraint demands it.
func TestCertificatesOverTime(t *testing.T) {
	t.Run("13 months", func(t *testing.T) {
		a := newAging(t, certificates.Day)
		for day := range 396 {
			a.at(time.Duration(day) * certificates.Day)
			a.reconcile(true)
		}
		a.done(1)
	})
	t.Run("11 years", func(t *testing.T) {
		const step = 10 * certificates.Day
		a := newAging(t, step)
		rotation := &corev1beta1.CARotation{}
		for at := time.Duration(0); at <= 11*certificates.Year; at += step {
			a.at(at)
			switch left := a.used[nameCA].NotAfter.Sub(a.clock.Now()); {
			case rotation.Phase == corev1beta1.RotationPreparing:
				rotation.Phase = corev1beta1.RotationCompleting
			case rotation.Phase == corev1beta1.RotationCompleting:
				rotation.Phase = corev1beta1.RotationCompleted
			case left < 30*certificates.Day: // The constraint has been False for eleven months.
				rotation.Phase, rotation.LastInitiationTime = corev1beta1.RotationPreparing, &metav1.Time{Time: a.clock.Now()}
				a.scope.Shoot.Status.Credentials = &corev1beta1.ShootCredentials{
					Rotation: &corev1beta1.ShootCredentialsRotation{CertificateAuthorities: rotation},
				}
			}
			a.reconcile(true)
		}
		a.watch.Done()
		if rotation.Phase != corev1beta1.RotationCompleted {
			t.Errorf("the rotation of the CAs is in phase %q", rotation.Phase)
		}
	})
}

// TestCertificatesOfAFailedShoot: a Shoot that always fails has valid certificates, independently of the time of its
// first failure: the package maintenance schedules enough retries, if they reach the control plane.
func TestCertificatesOfAFailedShoot(t *testing.T) {
	const retried = 30 * certificates.Day
	for name, failsOn := range map[string]int{
		"from the beginning": 0, "just before they are due": 291, "when they are due": 292,
	} {
		t.Run(name, func(t *testing.T) {
			a := newAging(t, retried+certificates.Day)
			s := a.scope.Shoot
			s.Status.ObservedGeneration = s.Generation
			attempts := []int{}
			for day := range 396 {
				a.at(time.Duration(day) * certificates.Day)
				request := maintenance.ReconcileRequest{
					Shoot: s, Operation: corev1beta1.LastOperationTypeReconcile,
					Options: maintenance.ReconcileOptions{SyncPeriod: time.Hour},
				}
				if !maintenance.DecideReconcile(request, a.clock.Now()).Now {
					continue
				}
				a.reconcile(day < failsOn)
				s.Status.LastOperation = &corev1beta1.LastOperation{
					State: corev1beta1.LastOperationStateSucceeded, LastUpdateTime: metav1.Time{Time: a.clock.Now()},
				}
				if day >= failsOn {
					s.Status.LastOperation.State = corev1beta1.LastOperationStateFailed
					attempts = append(attempts, day)
				}
			}
			a.done(1)
			if days := int(retried / certificates.Day); len(attempts) != (395-failsOn)/days+1 ||
				!slices.Contains(attempts, failsOn+days) {
				t.Errorf("attempts on days %v", attempts)
			}
		})
	}
}
