package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/yamux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/egress"
	"hortus.dev/hortus/internal/tunnel/certs"
	"hortus.dev/hortus/internal/tunnel/relay"
)

// hangLimit ends a test that hangs. No test takes that long on a busy machine.
const hangLimit = 2 * time.Minute

// authority issues certificates for one test.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{dir: t.TempDir(), key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca-vpn"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(a.dir, "ca.crt"), "CERTIFICATE", der)
	return a
}

// issue writes a certificate for name, usable by client and server.
func (a *authority) issue(t *testing.T, name string) *certs.Files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := &certs.Files{
		CA: filepath.Join(a.dir, "ca.crt"), Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key"),
	}
	writePEM(t, f.Cert, "CERTIFICATE", der)
	writePEM(t, f.Key, "PRIVATE KEY", keyDER)
	return f
}

func writePEM(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// world is a server, a stand-in for the gateway, and the API server's credentials.
type world struct {
	t       *testing.T
	ca      *authority
	server  *Server
	proxy   string // Address for CONNECT requests.
	clients string // Address for clients.
	gateway *gateway
	api     *certs.Files
}

func newWorld(t *testing.T) *world {
	t.Helper()
	noLeaks(t)
	ca := newAuthority(t)
	w := &world{t: t, ca: ca, api: ca.issue(t, APIServerCommonName),
		server: &Server{Certs: ca.issue(t, ServiceName), Log: logr.Discard(), Registry: prometheus.NewRegistry()}}
	clients, proxy := listen(t), listen(t)
	w.proxy, w.clients = proxy.Addr().String(), clients.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.server.Serve(ctx, Listeners{Clients: clients, Proxy: proxy}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	w.gateway = newGateway(t, clients.Addr().String())
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// noLeaks fails the test when goroutines remain after everything was stopped. It must be registered first.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(10 * time.Second)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// client starts a tunnel client and returns a function that stops it.
func (w *world) client() (stop func()) {
	w.t.Helper()
	c := &Client{
		Gateway: w.gateway.addr, Destinations: []string{Destination("shoot--p--s")}, ServerName: ServiceName,
		Certs: w.ca.issue(w.t, "vpn-shoot"), Clock: clock.RealClock{},
		Log: logr.Discard(), Registry: prometheus.NewRegistry(), Dial: dialShoot,
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return stop
}

func (w *world) waitClients(n int) {
	w.t.Helper()
	for deadline := time.Now().Add(hangLimit); w.server.Connected() != n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d clients connected, want %d", w.server.Connected(), n)
		}
	}
}

// connect requests a connection to target from the server, as the API server does.
func (w *world) connect(target string) (net.Conn, *http.Response) {
	w.t.Helper()
	config, err := w.api.Client(ServiceName)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", w.proxy, config)
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		w.t.Fatal(err)
	}
	buffered, _ := r.Peek(r.Buffered())
	return relay.WithPrefix(conn, buffered), answer
}

// gateway is a minimal stand-in that forwards every CONNECT to one server.
type gateway struct {
	addr string
	mu   sync.Mutex
	open map[net.Conn]bool
}

func newGateway(t *testing.T, upstream string) *gateway {
	l := listen(t)
	g := &gateway{addr: l.Addr().String(), open: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { g.serve(down, upstream) })
		}
	})
	t.Cleanup(func() { l.Close(); g.cut(); wg.Wait() })
	return g
}

func (g *gateway) serve(down net.Conn, upstream string) {
	defer down.Close()
	g.track(down, true)
	defer g.track(down, false)
	r := bufio.NewReader(down)
	req, err := http.ReadRequest(r)
	if err != nil || req.Method != http.MethodConnect || req.Header.Get(DestinationHeader) != Destination("shoot--p--s") {
		return
	}
	up, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	fmt.Fprint(down, "HTTP/1.1 200 OK\r\n\r\n")
	relay.Both(down, up)
}

func (g *gateway) track(c net.Conn, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if open {
		g.open[c] = true
	} else {
		delete(g.open, c)
	}
}

// cut breaks every connection through the gateway.
func (g *gateway) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open {
		c.Close()
	}
}

// shootNode is the address of everything inside the "Shoot", because clients never connect to loopback addresses.
const shootNode = "10.250.0.7"

// dialShoot connects to this machine instead of shootNode.
func dialShoot(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, strings.Replace(address, shootNode, "127.0.0.1", 1))
}

// inShoot is the address of a listener that the API server uses.
func inShoot(l net.Listener) string {
	return strings.Replace(l.Addr().String(), "127.0.0.1", shootNode, 1)
}

// target starts a TCP server inside the "Shoot".
func target(t *testing.T, handle func(*net.TCPConn)) string {
	l := listen(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); handle(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return inShoot(l)
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

func TestConnectionThroughTunnel(t *testing.T) {
	w := newWorld(t)
	// It responds only after the request has ended, so the half close has to arrive.
	addr := target(t, func(c *net.TCPConn) {
		b, _ := io.ReadAll(c)
		_, _ = c.Write(bytes.ToUpper(b))
	})
	w.client()
	w.waitClients(1)
	conn, answer := w.connect(addr)
	defer conn.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT: %s", answer.Status)
	}
	question := bytes.Repeat([]byte("abc"), 500_000) // More than the flow control window.
	if _, err := conn.Write(question); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, bytes.ToUpper(question)) {
		t.Errorf("read %d bytes, error %v; want %d", len(got), err, len(question))
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	closed := listen(t)
	closed.Close()
	open := target(t, echo)

	check := func(name, to string, want int) {
		t.Helper()
		conn, answer := w.connect(to)
		conn.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: CONNECT %s: %s, want %d", name, to, answer.Status, want)
		}
	}
	check("no client is connected", open, http.StatusServiceUnavailable)
	stop := w.client()
	w.waitClients(1)
	check("allowed target", open, http.StatusOK)
	check("nothing listens", inShoot(closed), http.StatusBadGateway)
	check("the client's machine", strings.Replace(open, shootNode, "127.0.0.1", 1), http.StatusForbidden)
	check("the client's machine by name", "localhost:443", http.StatusForbidden)
	check("an odd spelling of it", "0x7f.1:443", http.StatusForbidden)
	check("the metadata service of the client's machine", "169.254.169.254:80", http.StatusForbidden)
	check("target without port", "127.0.0.1", http.StatusBadRequest)
	w.server.Inside = egress.Inside(
		[]netip.Prefix{netip.MustParsePrefix("10.250.0.0/16")}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	)
	check("target outside the allowed networks", "10.1.2.3:443", http.StatusForbidden)
	check("the Shoot's own network", open, http.StatusOK)
	stop()
	w.waitClients(0)
	check("the client is gone", open, http.StatusServiceUnavailable)
}

func TestOnlyCertificatesOfTheCAAreAccepted(t *testing.T) {
	w := newWorld(t)
	other := newAuthority(t)
	stranger := other.issue(t, "kube-apiserver")
	stranger.CA = filepath.Join(w.ca.dir, "ca.crt") // It trusts the server, but the server does not trust it.
	config, err := stranger.Client(ServiceName)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", w.proxy, config)
	if err == nil { // With TLS 1.3 the client gets the error at its first read.
		fmt.Fprintf(conn, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of another CA was accepted, error %v", err)
	}
}

// TestPortsAreForTheirPeer: the client's certificate is in the Shoot, and must not open the ports of the API server.
func TestPortsAreForTheirPeer(t *testing.T) {
	w := newWorld(t)
	dial := func(address, commonName string) *tls.Conn {
		t.Helper()
		config, err := w.ca.issue(t, commonName).Client(ServiceName)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", address, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for _, name := range []string{ClientCommonName, ServiceName} {
		conn := dial(w.proxy, name)
		fmt.Fprintf(conn, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")
		if answer, err := io.ReadAll(conn); len(answer) > 0 {
			t.Errorf("%s at the port of the API server: response %q, %v", name, answer, err)
		}
	}
	for name, want := range map[string]bool{ClientCommonName: true, APIServerCommonName: false, ServiceName: false} {
		session, err := yamux.Server(dial(w.clients, name), sessionConfig(logr.Discard()))
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if _, err := session.Ping(); (err == nil) != want {
			t.Errorf("%s at the port of clients: session %v, want %v (%v)", name, err == nil, want, err)
		}
	}
	w.waitClients(1)
}

func TestRequestsAreSpreadAndDeadClientsDropped(t *testing.T) {
	w := newWorld(t)
	addr := target(t, echo)
	stop := w.client()
	w.client()
	w.waitClients(2)
	try := func(n int) {
		t.Helper()
		for range n {
			conn, answer := w.connect(addr)
			conn.Close()
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("CONNECT: %s", answer.Status)
			}
		}
	}
	try(6)
	stop()
	w.waitClients(1)
	try(6)
}

func TestClientReconnectsAndOpenConnectionsBreak(t *testing.T) {
	w := newWorld(t)
	addr := target(t, echo)
	w.client()
	w.waitClients(1)
	conn, _ := w.connect(addr)
	defer conn.Close()
	w.gateway.cut()
	_ = conn.SetReadDeadline(time.Now().Add(hangLimit))
	if _, err := io.ReadAll(conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection cut in the middle ended with %v, want an error as soon as it is cut", err)
	}
	wait(t, "the client connects again", func() bool {
		conn, answer := w.connect(addr)
		conn.Close()
		return answer.StatusCode == http.StatusOK
	})
}

func TestSlowReaderDoesNotBlockOthers(t *testing.T) {
	w := newWorld(t)
	flood := target(t, func(c *net.TCPConn) { // Until the reader closes the connection.
		for b := make([]byte, 64<<10); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	addr := target(t, echo)
	w.client()
	w.waitClients(1)
	slow, _ := w.connect(flood)
	defer slow.Close()
	// yamux opens the window again when half of it was taken, so at most the other half is missing.
	wait(t, "more than half the window of the unread connection is full", func() bool {
		w.server.held.mu.Lock()
		defer w.server.held.mu.Unlock()
		return w.server.held.total > window/2
	})
	conn, _ := w.connect(addr)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(hangLimit))
	fmt.Fprint(conn, "ping")
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Errorf("echo alongside a slow reader: %v", err)
	}
}

func TestThousandsOfStreams(t *testing.T) {
	w := newWorld(t)
	addr := target(t, echo)
	w.client()
	w.client()
	w.waitClients(2)
	const streams, parallel = 3000, 64
	// Streams are opened below the TLS layer of the API server: its handshakes would dominate.
	var conns [streams]net.Conn
	var wg sync.WaitGroup
	limit := make(chan struct{}, parallel)
	for i := range conns {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			c, err := w.server.open(addr)
			if err != nil {
				t.Errorf("stream %d: %v", i, err)
				return
			}
			conns[i] = c
		})
	}
	wg.Wait()
	for i, c := range conns { // All are open at the same time.
		if c == nil {
			continue
		}
		message := fmt.Sprintf("stream %d", i)
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(c, message)
		got := make([]byte, len(message))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != message {
			t.Errorf("stream %d: read %q, error %v", i, got, err)
		}
		_ = c.Close()
	}
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 250 * time.Millisecond, 1: 500 * time.Millisecond, 5: 8 * time.Second,
		6: maxBackoff, 9: maxBackoff, 10: maxBackoff, 1000: maxBackoff} {
		if got := backoff(n, 0); got != want {
			t.Errorf("backoff(%d, 0) = %v, want %v", n, got, want)
		}
		if got := backoff(n, 0.999); got < want/2 || got > want {
			t.Errorf("backoff(%d, 0.999) = %v, want between %v and %v", n, got, want/2, want)
		}
	}
}

func TestHealthDoesNotDependOnThePeerButConnectedDoes(t *testing.T) {
	connected := false
	h := healthHandler(func() bool { return connected })
	code := func(path string) int { return codeOf(h, path) }
	if code("/readyz") != 200 || code("/healthz") != 200 || code("/connectedz") != 503 {
		t.Error("without session: want readyz 200, healthz 200, connectedz 503")
	}
	connected = true
	if code("/connectedz") != 200 {
		t.Error("with session: want connectedz 200")
	}
}

func TestMetricsAndHealthAreServedApart(t *testing.T) {
	health, metrics := healthHandler(func() bool { return true }), metricsHandler(prometheus.NewRegistry())
	for _, path := range []string{"/metrics", "/metrics/", "/debug/pprof/", "/debug/vars", "/"} {
		if got := codeOf(health, path); got != http.StatusNotFound {
			t.Errorf("health: %s answers %d, want 404", path, got)
		}
	}
	for path, want := range map[string]int{"/metrics": 200, "/debug/pprof/": 404, "/": 404} {
		if got := codeOf(metrics, path); got != want {
			t.Errorf("metrics: %s answers %d, want %d", path, got, want)
		}
	}
}

func TestMetricsAreServedInsideThePod(t *testing.T) {
	for name, cmd := range map[string]*cobra.Command{"server": newServerCommand(), "client": newClientCommand()} {
		address, err := netip.ParseAddrPort(cmd.Flags().Lookup("metrics-address").DefValue)
		if err != nil || !address.Addr().IsLoopback() {
			t.Errorf("%s: --metrics-address is %s by default, error %v; want one of the loopback interface", name, address, err)
		}
	}
}

func codeOf(h http.Handler, path string) int {
	r := &recorder{header: http.Header{}, code: http.StatusOK}
	req, _ := http.NewRequest(http.MethodGet, path, nil)
	h.ServeHTTP(r, req)
	return r.code
}

type recorder struct {
	header http.Header
	code   int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(code int)        { r.code = code }
