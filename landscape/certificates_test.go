package landscape

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/landscape/cluster"
)

// TestCertificatesAreInTheTable: what is issued for the landscape is in the table of certificates, with its life, and nothing else is.
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
	if _, err := material.RenewWorker(worker, cluster.Worker{Name: "w", Address: "10.1.0.11"}, clock.RealClock{}); err != nil {
		t.Fatal(err)
	}
	certificates.Check(t, livesOf(t, worker), certificates.LandscapeWorker)

	garden, err := newGardenPKI()
	if err != nil {
		t.Fatal(err)
	}
	certificates.Check(t, livesOf(t, garden), certificates.LandscapeGarden)
}

// livesOf returns the lives of all certificates in a struct, by field.
func livesOf(t *testing.T, material any) map[string]time.Duration {
	t.Helper()
	lives := map[string]time.Duration{}
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
		lives[v.Type().Field(i).Name] = certificates.LifeOf(cert)
	}
	return lives
}
