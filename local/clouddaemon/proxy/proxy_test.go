package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var loopback = netip.MustParseAddr("127.0.0.1")

func dialHost(ctx context.Context, t Target) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", t.Address)
}

// server runs handle for every connection and returns its address as a target.
func server(t *testing.T, handle func(*net.TCPConn)) Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c.(*net.TCPConn))
			}()
		}
	}()
	return Target{Address: l.Addr().String()}
}

func says(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { _, _ = io.WriteString(c, text) }
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start starts a proxy with one port and returns the port.
func start(t *testing.T, idle time.Duration, targets ...Target) (*Proxy, int) {
	t.Helper()
	p := New(dialHost)
	t.Cleanup(p.Close)
	for attempt := 1; ; attempt++ {
		port := freePort(t) // Another process may take the port before the proxy does.
		err := p.Apply("lb", Config{Address: loopback, Listeners: map[int][]Target{port: targets}, IdleTimeout: idle})
		if err == nil {
			return p, port
		}
		if attempt == 10 {
			t.Fatal(err)
		}
	}
}

func connect(t *testing.T, port int) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // Only a failing test waits so long.
	return c.(*net.TCPConn)
}

func TestTargetsTakeTurns(t *testing.T) {
	_, port := start(t, 0, server(t, says("a")), server(t, says("b")), server(t, says("c")))
	got := map[string]int{}
	for range 6 {
		data, _ := io.ReadAll(connect(t, port))
		got[string(data)]++
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 2, "c": 2}, got); diff != "" {
		t.Errorf("answers mismatch (-want +got):\n%s", diff)
	}
}

func TestDeadTargetsAreSkipped(t *testing.T) {
	// Refused at once: nobody listens on ports below 1024 of odd loopback addresses.
	dead := Target{Address: "127.99.99.99:1"}
	_, port := start(t, 0, dead, server(t, says("alive")))
	for range 4 {
		if data, err := io.ReadAll(connect(t, port)); string(data) != "alive" {
			t.Errorf("answer = %q, %v, want that of the living target", data, err)
		}
	}
}

func TestWithoutTargetConnectionsAreReset(t *testing.T) {
	_, port := start(t, 0)
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil { // The reset may arrive even before the dial returns.
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error = %v, want a reset", err)
	}
}

func TestOnlyAllowedPrefixesConnect(t *testing.T) {
	var reached atomic.Int32
	target := server(t, func(c *net.TCPConn) {
		reached.Add(1)
		echo(c)
	})
	p, port := start(t, 0, target)
	allow := func(prefixes ...string) {
		t.Helper()
		cfg := Config{Address: loopback, Listeners: map[int][]Target{port: {target}}}
		for _, prefix := range prefixes {
			cfg.Allowed = append(cfg.Allowed, netip.MustParsePrefix(prefix))
		}
		if err := p.Apply("lb", cfg); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // Only a failing test waits so long.
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	open := func() (net.Conn, error) {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil { // The reset may arrive even before the dial returns.
			return nil, err
		}
		t.Cleanup(func() { c.Close() })
		return c, answer(c)
	}
	allow("192.0.2.0/24", "127.0.0.0/8")
	established, err := open()
	if err != nil {
		t.Errorf("a connection from an allowed prefix ends with %v", err)
	}
	allow("192.0.2.0/24")
	if _, err := open(); err == nil {
		t.Error("a connection from another prefix is answered")
	}
	if got := reached.Load(); got != 1 {
		t.Errorf("the target has seen %d connections, want the allowed one", got)
	}
	if err := answer(established); err == nil {
		t.Error("an established connection outlives its permission")
	}
	allow()
	if _, err := open(); err != nil {
		t.Errorf("a connection to a load balancer without prefixes ends with %v", err)
	}
}

func TestHalfCloseIsPassedOn(t *testing.T) {
	received := make(chan string, 1)
	_, port := start(t, 0, server(t, func(c *net.TCPConn) {
		data, _ := io.ReadAll(c) // The copy ends only if the end of the request arrives.
		received <- string(data)
		_, _ = io.WriteString(c, "answer")
	}))
	c := connect(t, port)
	_, _ = io.WriteString(c, "request")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if string(answer) != "answer" || err != nil || <-received != "request" {
		t.Errorf("answer = %q, %v", answer, err)
	}
}

func TestConnectionsOfATargetTakenAwayAreClosed(t *testing.T) {
	gone, stays := server(t, echo), server(t, echo)
	p, port := start(t, 0, gone)
	lost := connect(t, port)
	roundTrip(t, lost)
	listeners := func(targets ...Target) Config {
		return Config{Address: loopback, Listeners: map[int][]Target{port: targets}}
	}
	if err := p.Apply("lb", listeners(gone, stays)); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, lost) // Adding a target affects no connection.
	if err := p.Apply("lb", listeners(stays)); err != nil {
		t.Fatal(err)
	}
	if _, err := lost.Read(make([]byte, 1)); err == nil {
		t.Error("the connection to a removed target is still open")
	}
	roundTrip(t, connect(t, port))
	p.Remove("lb")
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
		c.Close()
		t.Error("a removed load balancer accepts connections")
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	_, port := start(t, 10*time.Millisecond, server(t, echo))
	if _, err := connect(t, port).Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an idle connection stays open: %v", err)
	}
}

// Bytes in either direction keep a connection open.
func TestConnectionsInUseAreNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, clientEnd := net.Pipe()
		server, serverEnd := net.Pipe()
		begin := time.Now()
		closed := make(chan time.Duration, 1)
		go func() {
			forward(clientEnd, serverEnd, time.Hour)
			closed <- time.Since(begin)
		}()
		for i, ends := range [][2]net.Conn{{client, server}, {server, client}, {client, server}} {
			time.Sleep(59 * time.Minute)
			go func() { _, _ = io.WriteString(ends[0], "x") }()
			if _, err := io.ReadFull(ends[1], make([]byte, 1)); err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		if got, want := <-closed, 3*59*time.Minute+time.Hour; got != want {
			t.Errorf("closed after %s, want %s", got, want)
		}
	})
}

func TestBusyPortsAreReported(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p, good := start(t, 0)
	err = p.Apply("lb", Config{Address: loopback, Listeners: map[int][]Target{
		taken.Addr().(*net.TCPAddr).Port: nil, good: {server(t, says("works"))},
	}})
	if err == nil {
		t.Error("a busy port is not reported")
	}
	if data, _ := io.ReadAll(connect(t, good)); string(data) != "works" {
		t.Errorf("the other port answers %q", data)
	}
}

func roundTrip(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}
