package landscape

import (
	"crypto/x509"
	"reflect"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/local/landscape/cluster"
)

// TestCertificatesAreInTheTable: the table of certificates has exactly the certificates of the landscape, with their
// validity.
func TestCertificatesAreInTheTable(t *testing.T) {
	values := cluster.Values{Name: "a", NodeAddress: "10.1.0.10", PublicAddress: "198.18.8.1", APIServiceIP: "10.0.0.1"}
	material, err := cluster.NewPKI(values, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	lives := livesOf(t, material)
	lives["ServiceAccountKey"] = 0
	certificates.Check(t, lives, certificates.LandscapeCluster)

	worker := &cluster.WorkerPKI{}
	if _, err := material.RenewWorker(worker, cluster.Worker{Name: "w", Address: "10.1.0.11"},
		clock.RealClock{}); err != nil {
		t.Fatal(err)
	}
	certificates.Check(t, livesOf(t, worker), certificates.LandscapeWorker)

	garden, err := newGardenPKI(clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	certificates.Check(t, livesOf(t, garden), certificates.LandscapeGarden)
}

// TestCertificatesOverTime: a landscape works for 13 months without 'hortus up', and for the lifetime of its CAs with
// one run a year.
func TestCertificatesOverTime(t *testing.T) {
	for name, tc := range map[string]struct{ last, step, up time.Duration }{
		"13 months without hortus up": {last: 396 * certificates.Day, step: certificates.Day},
		"10 years, hortus up once a year": {
			last: 10*certificates.Year - certificates.Day, step: 5 * certificates.Day, up: certificates.Year,
		},
	} {
		t.Run(name, func(t *testing.T) { moveLandscape(t, tc.last, tc.step, tc.up) })
	}
}

// moveLandscape advances the clock of a landscape. up is the interval of runs of 'hortus up'; 0 means none.
func moveLandscape(t *testing.T, last, step, up time.Duration) {
	begin := time.Unix(2e9, 0)
	now := testclock.NewFakePassiveClock(begin)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	values := cluster.Values{Name: "a", NodeAddress: "10.1.0.10", PublicAddress: "198.18.8.1", APIServiceIP: "10.0.0.1"}
	material, err := cluster.NewPKI(values, now)
	must(err)
	garden, err := newGardenPKI(now)
	must(err)
	worker, gardenlet := &cluster.WorkerPKI{}, &pki.KeyPair{}
	bringUp := func() {
		_, err := material.Renew(values, now)
		must(err)
		_, err = material.RenewWorker(worker, cluster.Worker{Name: "w", Address: "10.1.0.11"}, now)
		must(err)
		_, err = garden.renew(now)
		must(err)
		ca, err := pki.LoadCA(material.CA.CertPEM, material.CA.KeyPEM, now)
		must(err)
		_, err = renewGardenlet(gardenlet, "s", ca, now)
		must(err)
	}
	bringUp()
	const first = "gardenlet, the first one"
	clusters := certificates.NewWatch(t, certificates.LandscapeCluster, up)
	workers := certificates.NewWatch(t, certificates.LandscapeWorker, up)
	gardens := certificates.NewWatch(t, certificates.LandscapeGarden, up)
	gardenlets := certificates.NewWatch(t, certificates.Named(certificates.LandscapeOther, first), up)
	look := func() {
		for name, cert := range certificatesOf(t, material) {
			clusters.Use(name, cert, now.Now())
		}
		for name, cert := range certificatesOf(t, worker) {
			workers.Use(name, cert, now.Now())
		}
		for name, cert := range certificatesOf(t, garden) {
			gardens.Use(name, cert, now.Now())
		}
		cert, err := pki.ParseCert(gardenlet.CertPEM)
		must(err)
		gardenlets.Use(first, cert, now.Now())
	}
	for at := time.Duration(0); at <= last; at += step {
		now.SetTime(begin.Add(at))
		look()
		if up > 0 && at%up == 0 {
			bringUp()
			look()
		}
	}
	want := 0
	if up > 0 {
		want = 2 // After 4 and 8 years.
	}
	for name, count := range map[string]int{
		"APIServer": clusters.Done()["APIServer"], "Kubelet": workers.Done()["Kubelet"],
		"EtcdServer": gardens.Done()["EtcdServer"], first: gardenlets.Done()[first],
	} {
		if count != want {
			t.Errorf("%q was replaced %d times, want %d", name, count, want)
		}
	}
}

// livesOf returns the validity of all certificates in a struct, by field.
func livesOf(t *testing.T, material any) map[string]time.Duration {
	t.Helper()
	lives := map[string]time.Duration{}
	for name, cert := range certificatesOf(t, material) {
		lives[name] = certificates.LifeOf(cert)
	}
	return lives
}

// certificatesOf returns all certificates in a struct, by field.
func certificatesOf(t *testing.T, material any) map[string]*x509.Certificate {
	t.Helper()
	certs := map[string]*x509.Certificate{}
	v := reflect.ValueOf(material).Elem()
	for i := range v.NumField() {
		pair, ok := v.Field(i).Interface().(pki.KeyPair)
		if !ok {
			continue
		}
		cert, err := pki.ParseCert(pair.CertPEM)
		if err != nil {
			t.Fatalf("%s: %v", v.Type().Field(i).Name, err)
		}
		certs[v.Type().Field(i).Name] = cert
	}
	return certs
}
