package certificates

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"
)

// LifeOf returns the validity of a certificate, without the minute by which its start is moved back because clocks
// differ.
func LifeOf(cert *x509.Certificate) time.Duration {
	return cert.NotAfter.Sub(cert.NotBefore).Round(Day)
}

// Check compares the names and lifetimes of issued certificates with rows of the table.
func Check(t tester, issued map[string]time.Duration, rows []Row) {
	t.Helper()
	known := map[string]time.Duration{}
	for _, row := range rows {
		for _, name := range row.Names {
			known[name] = row.Life
		}
	}
	for _, name := range slices.Sorted(maps.Keys(issued)) {
		if life, ok := known[name]; !ok {
			t.Errorf("%q is not in the table of certificates, internal/certificates/table.go", name)
		} else if life != issued[name] {
			t.Errorf("the table of certificates says that %q is valid for %s, it is for %s", name, life, issued[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ok := issued[name]; !ok {
			t.Errorf("%q is in the table of certificates, but is not issued", name)
		}
	}
}
