package test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/egress"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/tunnel"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// userHost is the host of the user's servers, outside of the seed.
const userHost = "idp.example.org"

// tunnelServer is the only way from the API server to userHost, whose name nothing else resolves.
type tunnelServer struct {
	ca     *pki.CA
	client *pki.KeyPair      // Of the API server.
	urls   map[string]string // Maps the URLs in the API server's configuration to those of this server.

	mu      sync.Mutex
	dialled []string
	offered map[string]string // Webhooks in the seed that it may call, by host:port, with their addresses.
}

func newTunnelServer(t *testing.T) *tunnelServer {
	t.Helper()
	ca, err := pki.NewCA("vpn", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	s := &tunnelServer{ca: ca, urls: map[string]string{}}
	if s.client, err = ca.Issue(pki.Request{CommonName: "kube-apiserver-http-proxy", Usage: pki.Client}); err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: "vpn-seed-server", DNSNames: []string{"localhost"}, Usage: pki.Server})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := &certs.Files{CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	for name, content := range map[string][]byte{files.CA: ca.CertPEM, files.Cert: pair.CertPEM, files.Key: pair.KeyPEM} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := egress.Outside(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := &tunnel.Server{
		Certs: files, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		Egress: &egress.Dialer{Rules: rules, Resolve: resolve, Dial: s.dial, Exempt: func(target string) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.offered[target] != ""
		}},
	}
	var l tunnel.Listeners
	for url, listener := range map[string]*net.Listener{
		"https://vpn-seed-server:9443": &l.Proxy, "https://vpn-seed-server:9444": &l.Egress,
	} {
		if *listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort((*listener).Addr().String())
		s.urls[url] = "https://localhost:" + port
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the tunnel server: %v", err)
		}
	})
	return s
}

func resolve(_ context.Context, name string) ([]netip.Addr, error) {
	if name != userHost+"." {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.MustParseAddr("198.51.100.7")}, nil
}

func (s *tunnelServer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	s.dialled = append(s.dialled, address)
	address = cmp.Or(s.offered[address], address)
	s.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, network, strings.Replace(address, "198.51.100.7", "127.0.0.1", 1))
}

// reached reports whether the API server has reached a URL of the user through the tunnel server.
func (s *tunnelServer) reached(url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := "198.51.100.7" + url[strings.LastIndex(url, ":"):]
	for _, address := range s.dialled {
		if address == want {
			return true
		}
	}
	return false
}
