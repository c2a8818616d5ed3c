package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	component "hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/tunnel/relay"
)

// within bounds the waits of tests.
const within = 20 * time.Second

// wait waits for a state.
func wait(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

// seed is a gateway in front of backends that only accept. Control planes are named by letters: API servers have the
// cluster IPs 10.0.0.1 (a) and 10.0.0.2 (b).
type seed struct {
	started
	t        testing.TB
	backends map[string]net.Listener
}

func newSeed(t testing.TB, configure ...func(*Server)) *seed {
	t.Helper()
	table := &Table{
		exact: map[string][]Backend{}, destinations: map[Destination]Backend{}, apiServers: map[netip.Addr]Backend{},
	}
	backends := map[string]net.Listener{}
	for i, namespace := range []string{"a", "b"} {
		l := loopback(t)
		t.Cleanup(func() { l.Close() })
		service := types.NamespacedName{Namespace: namespace, Name: apiServerService}
		b := Backend{Service: service, Address: netip.MustParseAddrPort(l.Addr().String())}
		backends[namespace] = l
		table.exact[namespace+".example.com"] = []Backend{b}
		table.destinations[Destination{service, apiServerPort}] = b
		table.apiServers[netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})] = b
	}
	return &seed{start(t, table, 0, configure...), t, backends}
}

func (s *seed) dial(address string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(within))
	return conn
}

// askConnect sends a request to the CONNECT port and returns the connection and the response.
func (s *seed) askConnect(namespace string) (net.Conn, *http.Response, string) {
	s.t.Helper()
	conn := s.dial(s.connect)
	fmt.Fprintf(conn, "CONNECT x:1 HTTP/1.1\r\nReversed-VPN: outbound|443||kube-apiserver.%s.svc.cluster.local\r\n\r\n",
		namespace)
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		s.t.Fatal(err)
	}
	body := ""
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		body = string(text)
	}
	return conn, answer, body
}

// askTLS sends a ClientHello to the TLS port.
func (s *seed) askTLS(namespace string) net.Conn {
	s.t.Helper()
	conn := s.dial(s.tls)
	if _, err := conn.Write(hello(s.t, &tls.Config{ServerName: namespace + ".example.com"})); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func (s *seed) askProxy(ip net.IP) net.Conn {
	s.t.Helper()
	conn := s.dial(s.proxy)
	h := proxyproto.HeaderProxyFromAddrs(2, &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 1},
		&net.TCPAddr{IP: ip, Port: 443})
	if _, err := h.WriteTo(conn); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// accept returns the next connection that arrives at a control plane.
func (s *seed) accept(namespace string) net.Conn {
	s.t.Helper()
	l := s.backends[namespace].(*net.TCPListener)
	_ = l.SetDeadline(time.Now().Add(within))
	conn, err := l.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// ended waits until the other side has ended a connection.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(within))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open")
	}
}

func (s *seed) limited(port, limit string) float64 {
	return testutil.ToFloat64(s.server.metrics.limited.WithLabelValues(port, limit))
}

func TestMayTake(t *testing.T) {
	for name, tc := range map[string]struct {
		has, taken, total int
		want              bool
	}{
		"the first of all":                          {0, 0, 3, true},
		"less than half of the free places":         {99, 100, 300, true},
		"a third is the most":                       {100, 100, 300, false},
		"the first while others have many":          {0, 299, 300, true},
		"the first when no place is free":           {0, 300, 300, false},
		"few while few are free":                    {5, 280, 300, true},
		"many while few are free":                   {20, 280, 300, false},
		"3 connections for each of 1,000 nodes":     {2999, 2999, maxTLS, true},
		"two thirds of that alongside a greedy one": {1999, 5999, maxTLS, true},
		"2 connections by proxy for 1,000 nodes":    {1999, 1999, maxProxy, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mayTake(tc.has, tc.taken, tc.total); got != tc.want {
				t.Errorf("mayTake(%d, %d, %d) = %v, want %v", tc.has, tc.taken, tc.total, got, tc.want)
			}
		})
	}
}

// Independently of the number of greedy tenants, a late one gets two thirds of the connections of each.
func TestGreedyTenantsLeavePlaces(t *testing.T) {
	for _, greedy := range []int{1, 2, 10, 100} {
		p := newPlaces(maxTLS)
		for taken := -1; taken < p.taken; {
			taken = p.taken
			for n := range greedy {
				p.take(fmt.Sprint(n), time.Time{})
			}
		}
		late := 0
		for ok, _ := p.take("late", time.Time{}); ok; ok, _ = p.take("late", time.Time{}) {
			late++
		}
		part := maxTLS / (greedy + 2)
		if most := p.of["0"]; most > part+1 || late < part*2/3-1 {
			t.Errorf("%d greedy tenants have %d connections each, want at most %d; a late one gets %d, want at least %d",
				greedy, most, part+1, late, part*2/3-1)
		}
	}
}

func TestRefusalsAreReportedNowAndThen(t *testing.T) {
	p := newPlaces(0)
	now := time.Now()
	for i, tc := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {reportInterval - 1, false}, {reportInterval, true}, {reportInterval + 1, false}} {
		if ok, report := p.take("a", now.Add(tc.after)); ok || report != tc.want {
			t.Errorf("refusal %d: taken %v, reported %v, want %v", i, ok, report, tc.want)
		}
	}
}

// fewPlaces is 30 at each port: 10 for one control plane.
func fewPlaces(s *Server) {
	s.places = map[string]*places{portTLS: newPlaces(30), portProxy: newPlaces(30), portConnect: newPlaces(30)}
}

// One control plane has its maximum of connections at each port; another one is still served.
func TestQuietControlPlaneIsServedWhileAnotherIsAtItsBound(t *testing.T) {
	s := newSeed(t, fewPlaces)
	defer s.stop()
	ask := map[string]func() net.Conn{
		portConnect: func() net.Conn { conn, _, _ := s.askConnect("a"); return conn },
		portTLS:     func() net.Conn { return s.askTLS("a") },
		portProxy:   func() net.Conn { return s.askProxy(net.IPv4(10, 0, 0, 1)) },
	}
	taken := map[string][]net.Conn{}
	for port := range ask {
		for range 10 {
			taken[port] = append(taken[port], ask[port]())
			s.accept("a")
		}
	}
	_, answer, body := s.askConnect("a")
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "too many connections") {
		t.Errorf("CONNECT at the bound: %s, %q; want 503 and why", answer.Status, body)
	}
	ended(t, s.askTLS("a"))
	ended(t, s.askProxy(net.IPv4(10, 0, 0, 1)))
	for port := range ask {
		if n := s.limited(port, limitDestination); n != 1 {
			t.Errorf("%v refused connections of port %s counted, want 1", n, port)
		}
	}

	s.askTLS("b")
	s.accept("b")
	s.askProxy(net.IPv4(10, 0, 0, 2))
	s.accept("b")
	if _, answer, _ := s.askConnect("b"); answer.StatusCode != http.StatusOK {
		t.Errorf("CONNECT of another control plane: %s", answer.Status)
	}
	for _, conn := range taken[portConnect][:5] { // Makes room for more than one, since the other control plane has some.
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
	wait(t, "the control plane may have connections again", func() bool {
		_, answer, _ := s.askConnect("a")
		return answer.StatusCode == http.StatusOK
	})
}

// An attacker who uses all of a control plane's connections at port 443 does not affect its nodes' proxies and its
// tunnel.
func TestPortsHavePlacesOfTheirOwn(t *testing.T) {
	s := newSeed(t, fewPlaces)
	defer s.stop()
	for range 10 {
		s.askTLS("a")
		s.accept("a")
	}
	ended(t, s.askTLS("a"))
	s.askProxy(net.IPv4(10, 0, 0, 1))
	s.accept("a")
	if _, answer, _ := s.askConnect("a"); answer.StatusCode != http.StatusOK {
		t.Errorf("CONNECT: %s", answer.Status)
	}
	s.accept("a")
}

// Maximum memory of a gateway, in bytes: estimated, or measured by BenchmarkMemory if marked so.
const (
	memoryProcess    = 60 << 20 // Including the objects that it watches.
	memoryUndecided  = 40 << 10 // Of a connection that has sent a long header and no more.
	memoryConnection = 51 << 10 // Of one that carries much. Measured.
	// memoryNotTaken is the kernel's memory for a client that does not read: 64 KiB of data
	// (TestLittleIsHeldForClientsThatDoNotRead), and as much for its bookkeeping.
	memoryNotTaken = 128 << 10
)

// taken is the number of a port's places that n tenants get together if each takes as many as it can.
func taken(total, n int) int {
	p := newPlaces(total)
	for before := -1; before < p.taken; {
		before = p.taken
		for tenant := range n {
			p.take(fmt.Sprint(tenant), time.Time{})
		}
	}
	return p.taken
}

// TestMemorySuffices: all control planes of a seed are disconnected when the gateway exceeds its memory limit. It stays
// below, even if any number of tenants have all connections that they can get and read nothing, while all other
// connections carry much.
func TestMemorySuffices(t *testing.T) {
	limit, soft := memoryLimits(t)
	const connections = maxTLS + maxProxy + maxConnect
	const process = memoryProcess + 3*maxUndecided*memoryUndecided + connections*memoryConnection
	if process > soft {
		t.Errorf("the process takes up to %d MiB, more than %d MiB, where it is slow", process>>20, soft>>20)
	}
	for _, tenants := range []int{0, 1, 2, 3, 6, 10, 100, 1000} {
		held := (taken(maxTLS, tenants) + taken(maxProxy, tenants) + taken(maxConnect, tenants)) * memoryNotTaken
		if most := int64(soft + held); most > int64(limit) {
			t.Errorf("with %d tenants it is up to %d MiB, more than %d MiB", tenants, most>>20, limit>>20)
		}
	}
}

// memoryLimits are those of the gateway's container, and of its runtime, in bytes.
func memoryLimits(t *testing.T) (limit, soft int) {
	t.Helper()
	for _, o := range component.Render(component.Values{}) {
		d, ok := o.(*appsv1.Deployment)
		if !ok {
			continue
		}
		c := d.Spec.Template.Spec.Containers[0]
		limit = int(c.Resources.Limits.Memory().Value())
		for _, e := range c.Env {
			if e.Name == "GOMEMLIMIT" {
				quantity := resource.MustParse(strings.TrimSuffix(e.Value, "B"))
				soft = int(quantity.Value())
			}
		}
	}
	if limit == 0 || soft == 0 {
		t.Fatalf("limit %d, soft limit %d", limit, soft)
	}
	return limit, soft
}

// fewUndecided is 10, so that no timeout closes a connection before the others have been opened.
func fewUndecided(s *Server) { s.undecided = 10 }

func TestUndecidedConnectionsGiveWay(t *testing.T) {
	s := newSeed(t, fewUndecided)
	defer s.stop()
	oldest := s.dial(s.tls)
	for range 10 {
		s.dial(s.tls)
	}
	s.askTLS("a")
	s.accept("a")
	ended(t, oldest)
	if n := s.limited(portTLS, limitUndecided); n != 2 {
		t.Errorf("%v counted, want 2", n)
	}
}

// Connections with a destination are never closed for newer ones.
func TestDecidedConnectionsStay(t *testing.T) {
	s := newSeed(t, fewUndecided)
	defer s.stop()
	conn := s.askTLS("a")
	up := s.accept("a")
	for range 11 {
		s.dial(s.tls)
	}
	wait(t, "one gives way", func() bool { return s.limited(portTLS, limitUndecided) == 1 })
	if _, err := up.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Errorf("the connection with a destination: %v", err)
	}
}

func TestUnusedConnectionsEnd(t *testing.T) {
	for name, limits := range map[string]relay.Limits{
		"without a byte":               {Idle: 20 * time.Millisecond},
		"half open and without a byte": {Idle: time.Hour, HalfOpen: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeed(t, func(s *Server) { s.limits = limits })
			defer s.stop()
			conn := s.askTLS("a")
			up := s.accept("a")
			if limits.HalfOpen > 0 {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			ended(t, conn)
			ended(t, up)
			wait(t, "the place is free", func() bool { ok, _ := s.server.places[portTLS].take("a", time.Now()); return ok })
		})
	}
}

// If a client does not read, its API server waits; the gateway does not hold the data.
func TestLittleIsHeldForClientsThatDoNotRead(t *testing.T) {
	s := newSeed(t, func(s *Server) { s.limits.Write = time.Second })
	defer s.stop()
	conn := s.askTLS("a").(*net.TCPConn)
	up := s.accept("a").(*net.TCPConn)
	// If a client has large buffers, the buffers of the kernel grow.
	var sent int
	_ = up.SetWriteBuffer(64 << 10)
	_ = conn.SetReadBuffer(64 << 10)
	for {
		_ = up.SetWriteDeadline(time.Now().Add(within))
		n, err := up.Write(make([]byte, 64<<10))
		sent += n
		if err != nil {
			break
		}
	}
	if most := 1 << 20; sent > most {
		t.Errorf("sent %d bytes until the connection was closed, want at most %d", sent, most)
	}
}

func TestNewConnectionsAreAcceptedUntilTheDelayIsOver(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	s := newSeed(t, func(s *Server) { s.Delay, s.Drain, s.Clock = time.Hour, time.Hour, clock })
	s.end()
	wait(t, "it waits for the end of the delay", clock.HasWaiters)
	clock.Step(time.Hour - time.Second)
	conn, up := s.askTLS("a"), s.accept("a")
	clock.Step(time.Second)
	wait(t, "connections are refused", func() bool {
		late, err := net.Dial("tcp", s.tls)
		if err == nil {
			late.Close()
		}
		return err != nil
	})
	conn.Close()
	up.Close()
	s.stop()
}

// Connections that are still open when the drain time is over are closed.
func TestConnectionsStayUntilTheDrainTimeIsOver(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	s := newSeed(t, func(s *Server) { s.Drain, s.Clock = time.Hour, clock })
	conn := s.askTLS("a")
	up := s.accept("a")
	s.end()
	wait(t, "it waits for the end of the delay", clock.HasWaiters)
	clock.Step(time.Nanosecond)
	wait(t, "it waits for the end of the drain time", clock.HasWaiters)
	clock.Step(time.Hour - time.Second)
	if _, err := up.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Errorf("the connection while it drains: %v", err)
	}
	clock.Step(time.Second)
	s.stop()
	ended(t, conn)
}

func TestManagerEndsAfterTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	serverEnded := false
	manager := func(ctx context.Context) error {
		<-ctx.Done()
		if !serverEnded {
			t.Error("the manager was stopped before the server had ended")
		}
		return nil
	}
	server := func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		serverEnded = true
		return nil
	}
	if err := runBoth(ctx, manager, server); err != nil {
		t.Errorf("runBoth() = %v", err)
	}
	failed := errors.New("failed")
	if err := runBoth(context.Background(), func(context.Context) error { return failed },
		func(ctx context.Context) error { <-ctx.Done(); return nil }); !errors.Is(err, failed) {
		t.Errorf("runBoth() with a manager that fails = %v", err)
	}
}

// BenchmarkMemory measures the memory of a connection in the process: idle, and after it has carried much. Both include
// the two ends of the test, which are far smaller.
func BenchmarkMemory(b *testing.B) {
	const connections = 1000
	s := newSeed(b, func(s *Server) { s.places[portConnect] = newPlaces(3 * connections) })
	defer s.stop()
	used := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	for b.Loop() {
		before := used()
		var ends []net.Conn
		for range connections {
			conn, _, _ := s.askConnect("a")
			ends = append(ends, conn, s.accept("a"))
		}
		b.ReportMetric((used()-before)/connections, "B/idle")
		much := make([]byte, 1<<20)
		for i, from := range ends {
			to := ends[i^1]
			done := make(chan struct{})
			go func() { _, _ = io.ReadFull(to, make([]byte, len(much))); close(done) }()
			if _, err := from.Write(much); err != nil {
				b.Fatal(err)
			}
			<-done
		}
		b.ReportMetric((used()-before)/connections, "B/busy")
		for _, c := range ends {
			c.Close()
		}
		wait(b, "all places are free", func() bool {
			places := s.server.places[portConnect]
			places.mu.Lock()
			defer places.mu.Unlock()
			return places.taken == 0
		})
	}
}
