package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/pires/go-proxyproto"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

func bufioReader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }

// started is a running gateway.
type started struct {
	tls, connect, proxy string
	server              *Server
	end                 func() // Requests its shutdown.
	stop                func() // Requests its shutdown and waits.
}

func start(t testing.TB, table *Table, drain time.Duration, configure ...func(*Server)) started {
	t.Helper()
	noLeaks(t)
	l := Listeners{TLS: loopback(t), Connect: loopback(t), Proxy: loopback(t)}
	s := NewServer(logr.Discard(), prometheus.NewRegistry())
	s.Drain = drain
	s.SetTable(table)
	for _, c := range configure {
		c(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	}
	return started{l.TLS.Addr().String(), l.Connect.Addr().String(), l.Proxy.Addr().String(), s, cancel, stop}
}

// noLeaks fails the test when goroutines remain after everything was stopped.
func noLeaks(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
				return
			}
		}
	})
}

func loopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// apiServer starts a TLS server that answers with its name.
func apiServer(t *testing.T, name string) (Backend, *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		fmt.Fprintf(w, "%s for %s", name, r.TLS.ServerName)
	}))
	t.Cleanup(s.Close)
	config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com" // In the test server's certificate.
	config.NextProtos = nil
	return Backend{
		Service: types.NamespacedName{Name: name}, Address: netip.MustParseAddrPort(s.Listener.Addr().String()),
	}, config
}

// get sends a request over an established TLS connection.
func get(conn net.Conn) (string, error) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

func TestTLSIsRoutedBySNIWithoutTermination(t *testing.T) {
	a, config := apiServer(t, "a")
	b, _ := apiServer(t, "b")
	dead := loopback(t)
	dead.Close()
	gone := Backend{Address: netip.MustParseAddrPort(dead.Addr().String())}
	g := start(t, &Table{
		exact: map[string][]Backend{"example.com": {a}, "fallback.example.com": {gone, b}, "gone.example.com": {gone}},
	}, 0)
	defer g.stop()

	conn, err := tls.Dial("tcp", g.tls, config) // Verifies the API server's own certificate.
	if err != nil {
		t.Fatal(err)
	}
	if got, err := get(conn); err != nil || got != "a for example.com" {
		t.Errorf("answer %q, error %v", got, err)
	}
	insecure := config.Clone()
	insecure.InsecureSkipVerify, insecure.ServerName = true, "fallback.example.com"
	if conn, err = tls.Dial("tcp", g.tls, insecure); err != nil {
		t.Fatal(err)
	}
	if got, err := get(conn); err != nil || got != "b for fallback.example.com" {
		t.Errorf("answer %q, error %v", got, err)
	}
	for _, name := range []string{"unknown.example.com", "gone.example.com"} {
		insecure.ServerName = name
		if _, err := tls.Dial("tcp", g.tls, insecure); err == nil {
			t.Errorf("%s: connected, want the connection closed", name)
		}
	}
}

func TestConnectIsRoutedByHeader(t *testing.T) {
	a, config := apiServer(t, "a")
	d := Destination{types.NamespacedName{Namespace: "s1", Name: "kube-apiserver"}, 443}
	g := start(t, &Table{destinations: map[Destination]Backend{d: a}}, 0)
	defer g.stop()
	ask := func(request string) (net.Conn, *http.Response) {
		t.Helper()
		conn, err := net.Dial("tcp", g.connect)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprint(conn, request)
		answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
		if err != nil {
			t.Fatal(err)
		}
		return conn, answer
	}
	conn, answer := ask("CONNECT ignored.example:22 HTTP/1.1\r\nHost: x\r\nReversed-VPN: outbound|443||kube-apiserver.s1.svc.cluster.local\r\n\r\n")
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT: %s", answer.Status)
	}
	if got, err := get(tls.Client(conn, config)); err != nil || got != "a for example.com" {
		t.Errorf("answer %q, error %v", got, err)
	}
	conn, answer = ask("CONNECT x:22 HTTP/1.1\r\nHost: x\r\nReversed-VPN: outbound|443||kube-apiserver.s2.svc.cluster.local\r\n\r\n")
	conn.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("destination that does not exist: %s, want 503", answer.Status)
	}
	conn, answer = ask("CONNECT " + a.Address.String() + " HTTP/1.1\r\nHost: x\r\n\r\n")
	conn.Close()
	if answer.StatusCode != http.StatusMovedPermanently || answer.Header.Get("Location") != "https://127.0.0.1/" {
		t.Errorf("without header: %s to %q, want a redirect to https://127.0.0.1/", answer.Status,
			answer.Header.Get("Location"))
	}
}

func TestProxyProtocolIsRoutedByDestination(t *testing.T) {
	a, config := apiServer(t, "a")
	g := start(t, &Table{apiServers: map[netip.Addr]Backend{netip.MustParseAddr("10.0.0.1"): a}}, 0)
	defer g.stop()
	try := func(to net.IP, port int) (string, error) {
		conn, err := net.Dial("tcp", g.proxy)
		if err != nil {
			t.Fatal(err)
		}
		h := proxyproto.HeaderProxyFromAddrs(2, &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 4000},
			&net.TCPAddr{IP: to, Port: port})
		if _, err := h.WriteTo(conn); err != nil {
			t.Fatal(err)
		}
		return get(tls.Client(conn, config))
	}
	if got, err := try(net.IPv4(10, 0, 0, 1), 443); err != nil || got != "a for example.com" {
		t.Errorf("answer %q, error %v", got, err)
	}
	if got, err := try(net.IPv4(10, 0, 0, 2), 443); err == nil {
		t.Errorf("unknown address: response %q, want the connection closed", got)
	}
	if got, err := try(net.IPv4(10, 0, 0, 1), 22); err == nil {
		t.Errorf("another port: response %q, want the connection closed", got)
	}
}

func TestOpenConnectionsContinueWhileDraining(t *testing.T) {
	const drain = time.Hour
	clock := testclock.NewFakeClock(time.Now())
	up := loopback(t)
	defer up.Close()
	g := start(t, &Table{
		apiServers: map[netip.Addr]Backend{
			netip.MustParseAddr("10.0.0.1"): {Address: netip.MustParseAddrPort(up.Addr().String())},
		},
	}, drain, func(s *Server) { s.Clock = clock })
	conn, err := net.Dial("tcp", g.proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = proxyproto.HeaderProxyFromAddrs(2, &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 1},
		&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}).WriteTo(conn)
	server, err := up.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	stopped := make(chan struct{})
	go func() { g.stop(); close(stopped) }()
	wait(t, "it waits for the end of the delay", clock.HasWaiters)
	clock.Step(time.Nanosecond)
	wait(t, "the port is closed", func() bool {
		c, err := net.Dial("tcp", g.proxy)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	wait(t, "it waits for the end of the drain time", clock.HasWaiters)
	fmt.Fprint(conn, "still here")
	got := make([]byte, 10)
	if _, err := io.ReadFull(server, got); err != nil || string(got) != "still here" {
		t.Errorf("while draining: read %q, error %v", got, err)
	}
	clock.Step(drain)
	<-stopped
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Read(got); err == nil {
		t.Error("the connection is open after the drain time")
	}
}
