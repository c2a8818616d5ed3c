package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// write writes a self-signed certificate that is its own CA.
func write(t *testing.T, f *Files, name string, at time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		f.CA: {Type: "CERTIFICATE", Bytes: der}, f.Cert: {Type: "CERTIFICATE", Bytes: der},
		f.Key: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesFollowRotation(t *testing.T) {
	dir, start := t.TempDir(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(start)
	f := &Files{
		CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), Clock: clock,
	}
	if err := f.Load(); err == nil {
		t.Error("Load() without files: no error")
	}
	name := func() string {
		t.Helper()
		c, err := f.Client("x")
		if err != nil {
			t.Fatal(err)
		}
		return c.Certificates[0].Leaf.Subject.CommonName
	}
	write(t, f, "first", start)
	if got := name(); got != "first" {
		t.Errorf("certificate %q, want first", got)
	}
	write(t, f, "second", start.Add(time.Hour))
	if got := name(); got != "first" {
		t.Errorf("certificate %q before the files are checked again, want first", got)
	}
	clock.SetTime(start.Add(recheckAfter))
	if got := name(); got != "second" {
		t.Errorf("certificate %q after rotation, want second", got)
	}
	if err := os.WriteFile(f.Key, []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(start.Add(2 * recheckAfter))
	if got := name(); got != "second" {
		t.Errorf("certificate %q while files do not match, want the last good one", got)
	}
}
