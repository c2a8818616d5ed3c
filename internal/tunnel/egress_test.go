package tunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/internal/egress"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// outsideHost is an outside address that is redirected to this machine.
const outsideHost = "198.51.100.7"

// newOutside starts a server without tunnel. It resolves one name, and connects only to outsideHost.
func newOutside(t *testing.T) (w *world, egressPort string) {
	t.Helper()
	noLeaks(t)
	rules, err := egress.Outside([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dialer := &egress.Dialer{
		Rules: rules,
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			switch name {
			case "hook.example.":
				return []netip.Addr{netip.MustParseAddr(outsideHost)}, nil
			case "inside.example.":
				return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: name, Server: "10.0.0.10:53", IsNotFound: true}
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(address)
			if host != outsideHost {
				return nil, fmt.Errorf("dial %s: %w", address, context.DeadlineExceeded)
			}
			return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}
	ca := newAuthority(t)
	w = &world{t: t, ca: ca, api: ca.issue(t, APIServerCommonName),
		server: &Server{
			Certs: ca.issue(t, ServiceName), Log: logr.Discard(), Registry: prometheus.NewRegistry(), Egress: dialer,
		}}
	proxy, out := listen(t), listen(t)
	w.proxy = proxy.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.server.Serve(ctx, Listeners{Proxy: proxy, Egress: out}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	return w, out.Addr().String()
}

// Both egress selectors of a Shoot without workers connect to the outside only.
func TestEgress(t *testing.T) {
	w, egressPort := newOutside(t)
	l := target(t, echo)
	port := l[strings.LastIndex(l, ":")+1:]
	closed := listen(t)
	closed.Close()
	_, closedPort, _ := net.SplitHostPort(closed.Addr().String())
	for _, address := range []string{w.proxy, egressPort} {
		w.proxy = address
		for target, want := range map[string]int{
			"hook.example:" + port:       200,
			outsideHost + ":" + port:     200,
			"hook.example:" + closedPort: 502,
			"unknown.example:443":        502,
			"203.0.113.1:443":            504,
			"inside.example:443":         403,
			"10.1.2.3:443":               403,
			"127.0.0.1:" + port:          403,
			"[::1]:" + port:              403,
			"[::ffff:127.0.0.1]:" + port: 403,
			"169.254.169.254:80":         403,
			"0x7f.1:" + port:             403,
			"kubernetes.default.svc:443": 403,
			"kube-apiserver.shoot--a--b.svc.cluster.local.:443": 403,
			"hook.example:0": 403,
			"hook.example":   400,
		} {
			conn, answer := w.connect(target)
			if answer.StatusCode != want {
				t.Errorf("CONNECT %s: %s, want %d", target, answer.Status, want)
			}
			if answer.StatusCode == 200 {
				fmt.Fprint(conn, "ping")
				if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
					t.Errorf("%s: %v", target, err)
				}
			} else {
				text, _ := io.ReadAll(io.LimitReader(conn, answer.ContentLength))
				for _, internal := range []string{"10.", "127.", "198.51", "203.0", "dial", "lookup"} {
					if len(text) == 0 || strings.Contains(string(text), internal) {
						t.Errorf("%s: the answer %q has %q", target, text, internal)
					}
				}
			}
			conn.Close()
		}
	}
	want := map[string]float64{}
	for _, s := range []string{selectorCluster, selectorControlPlane} {
		for result, n := range map[string]float64{
			"allowed": 2, "failed": 2, "unresolved": 1, "refused_address": 6, "refused_name": 4, "malformed": 1,
		} {
			want["/"+result+"/"+s] = n
		}
	}
	checkResults(t, w.server.metrics.egress, want)
}

func TestEgressIsBounded(t *testing.T) {
	w, _ := newOutside(t)
	l := target(t, echo)
	to := "hook.example" + l[strings.LastIndex(l, ":"):]
	refused, _ := w.connect("10.1.2.3:443") // From here on the server runs.
	refused.Close()
	p := w.server.egressProxy(selectorControlPlane)
	p.slots = make(chan struct{}, 1)
	w.proxy = serveProxy(t, w, p)
	first, answer := w.connect(to)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT: %s", answer.Status)
	}
	second, answer := w.connect(to)
	second.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one too many: %s", answer.Status)
	}
	first.Close()
	wait(t, "the place is free", func() bool { return len(p.slots) == 0 })
	checkResults(t, w.server.metrics.egress, map[string]float64{
		"/refused_address/cluster": 1, "/allowed/controlplane": 1, "/limited/controlplane": 1,
	})
}

// TestExemptTargets: the selector of the control plane reaches what the file lists when a connection is requested,
// exactly as it is written there.
func TestExemptTargets(t *testing.T) {
	w, _ := newOutside(t)
	refused, _ := w.connect("10.1.2.3:443") // From here on the server runs.
	refused.Close()
	file := filepath.Join(t.TempDir(), "targets")
	_, hookPort, _ := net.SplitHostPort(target(t, echo))
	exempt := &exemptions{fixed: []string{"manager:443"}, file: file}
	dialer := *w.server.Egress
	dialer.Exempt = exempt.has
	dialer.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+hookPort)
	}
	w.server.Egress = &dialer
	proxies := map[string]string{}
	for _, selector := range []string{selectorCluster, selectorControlPlane} {
		proxies[selector] = serveProxy(t, w, w.server.egressProxy(selector))
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(selector, target string, want int) {
		t.Helper()
		w.proxy = proxies[selector]
		conn, answer := w.connect(target)
		conn.Close()
		if answer.StatusCode != want {
			t.Errorf("selector %s: CONNECT %s: %s, want %d", selector, target, answer.Status, want)
		}
	}
	const outside = 502 // The target is taken for a name outside, and is unknown there.
	check(selectorControlPlane, "manager:443", 200)
	check(selectorControlPlane, "hook.extension-noted:443", outside) // There is no file.
	check(selectorCluster, "manager:443", 403)
	write("hook.extension-noted:443\nhook.extension-noted.svc:443")
	for target, want := range map[string]int{
		"hook.extension-noted:443": 200, "hook.extension-noted.svc:443": 200,
		"hook.extension-noted.svc.cluster.local:443": 403, "hook.extension-noted:8443": outside,
		"hook.extension-noted.:443": outside, "k.extension-noted:443": outside,
		"hook:443": 403, "hook.extension-noted": 400, "10.1.2.3:443": 403,
	} {
		check(selectorControlPlane, target, want)
	}
	check(selectorCluster, "hook.extension-noted.svc:443", 403)
	write("other.extension-noted.svc:443\n")
	check(selectorControlPlane, "hook.extension-noted.svc:443", 403)
	check(selectorControlPlane, "other.extension-noted.svc:443", 200)
	write("")
	check(selectorControlPlane, "other.extension-noted.svc:443", 403)
	if exempt.has("") || exempt.has("a\nb") {
		t.Error("something that is no target is exempt")
	}
}

func TestServerNeedsEgressWithoutTunnel(t *testing.T) {
	s := &Server{Certs: &certs.Files{}, Log: logr.Discard(), Registry: prometheus.NewRegistry()}
	if err := s.Serve(t.Context(), Listeners{Proxy: listen(t)}); err == nil {
		t.Error("a server without destinations was started")
	}
}

func TestServerFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		options serverOptions
		fails   bool
	}{
		"nothing denied": {},
		"networks": {options: serverOptions{networks: networks{
			own: []string{"10.1.0.0/16"}, denied: []string{"10.0.0.0/8", "fd00::/8"},
		}}},
		"domains":    {options: serverOptions{deniedDomains: []string{"corp.example"}}},
		"no network": {options: serverOptions{networks: networks{denied: []string{"10.0.0.1"}}}, fails: true},
		"no domain":  {options: serverOptions{deniedDomains: []string{"a b"}}, fails: true},
	} {
		if _, _, err := tc.options.rules(); (err != nil) != tc.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := serverOptions{proxy: "127.0.0.1:0", egress: "127.0.0.1:0"}
	l, err := o.listen()
	if err != nil || l.Clients != nil || l.Proxy == nil || l.Egress == nil {
		t.Fatalf("listen() = %+v, %v", l, err)
	}
	l.Proxy.Close()
	l.Egress.Close()
}

func TestDeniedAddressesAreNotRequestedFromClients(t *testing.T) {
	w := newWorld(t)
	w.server.Inside = egress.Inside(
		[]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	)
	for target, want := range map[string]int{
		"10.2.0.1:443": http.StatusForbidden, "169.254.169.254:80": http.StatusForbidden,
		"node-1:10250": http.StatusForbidden,
		// There is no client for the connection.
		"10.1.0.1:443": http.StatusServiceUnavailable, "192.0.2.1:443": http.StatusServiceUnavailable,
	} {
		conn, answer := w.connect(target)
		conn.Close()
		if answer.StatusCode != want {
			t.Errorf("CONNECT %s: %s, want %d", target, answer.Status, want)
		}
	}
}
