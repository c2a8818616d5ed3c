package service_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/service"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// identity is a self-signed certificate, which is its own CA.
func identity(t *testing.T) *certs.Files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, IsCA: true,
		BasicConstraintsValid: true,
		NotAfter:              time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := &certs.Files{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir,
		"tls.key")}
	for path, block := range map[string]*pem.Block{f.CA: {Type: "CERTIFICATE", Bytes: cert},
		f.Cert: {Type: "CERTIFICATE", Bytes: cert},
		f.Key:  {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

type taker struct{ err error }

func (taker) Status() etcdbackup.Status {
	return etcdbackup.Status{Phase: etcdbackup.PhaseActive, EtcdRevision: 7, SavedRevision: 6, SecondsBehind: 1.5}
}

func (t taker) Snapshot(_ context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	return etcdbackup.Snapshot{Object: string(kind), Revision: 9}, t.err
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestClientAndService(t *testing.T) {
	files, address := identity(t), free(t)
	asked := &taker{}
	registry := prometheus.NewRegistry()
	service.NewMetrics(registry, asked.Status).Failed("full")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- service.Serve(ctx, address, free(t), files, service.Handler(asked, registry, nil), service.Probes{})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	config, err := files.Client("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	client := etcdbackup.NewClient("https://"+address, config)
	var status etcdbackup.Status
	for deadline := time.Now().Add(10 * time.Second); ; { // Until it listens.
		if status, err = client.Status(ctx); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil || status != asked.Status() {
		t.Errorf("status %+v, %v", status, err)
	}
	if s, err := client.Snapshot(ctx, chain.Full); err != nil || s.Object != "full" || s.Revision != 9 {
		t.Errorf("snapshot %+v, %v", s, err)
	}
	if _, err := client.Snapshot(ctx, "other"); err == nil || !strings.Contains(err.Error(), "invalid value") {
		t.Errorf("snapshot of an unknown kind: %v", err)
	}
	asked.err = errors.New("no space in the store")
	if _, err := client.Snapshot(ctx, chain.Delta); err == nil || !strings.Contains(err.Error(),
		"no space in the store") {
		t.Errorf("snapshot that fails: %v", err)
	}
	anonymous := config.Clone()
	anonymous.Certificates = nil
	if _, err := etcdbackup.NewClient("https://"+address, anonymous).Status(ctx); err == nil {
		t.Error("a client without a certificate gets an answer")
	}
	gathered, err := registry.Gather()
	if err != nil || len(gathered) < 4 {
		t.Errorf("%d metrics, %v", len(gathered), err)
	}
}

func TestProbesReportNothingElse(t *testing.T) {
	fails := func(context.Context) error { return errors.New("query etcd: secret") }
	answer := func(p service.Probes, path string) (int, string) {
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	for name, tc := range map[string]struct {
		probes service.Probes
		path   string
		code   int
		body   string
	}{
		"nothing to check":         {service.Probes{}, "/readyz", 200, "ok"},
		"not ready, with a reason": {service.Probes{Ready: fails}, "/readyz", 503, "unavailable"},
		"not ready, but alive":     {service.Probes{Ready: fails}, "/healthz", 200, "ok"},
		"not alive":                {service.Probes{Live: fails}, "/healthz", 503, "unavailable"},
	} {
		if code, body := answer(tc.probes, tc.path); code != tc.code || body != tc.body {
			t.Errorf("%s: %d %q, want %d %q", name, code, body, tc.code, tc.body)
		}
	}
	for _, path := range []string{"/metrics", "/v1/status", "/debug/pprof/", "/"} {
		if code, _ := answer(service.Probes{}, path); code != http.StatusNotFound {
			t.Errorf("%s answers %d, want 404", path, code)
		}
	}
}
