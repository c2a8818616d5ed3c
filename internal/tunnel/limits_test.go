package tunnel

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/yamux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// window is how much one stream accepts before its reader takes it.
const window = 256 << 10

// wait waits for a state.
func wait(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hangLimit); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

func (w *world) limited(limit string) float64 {
	return testutil.ToFloat64(w.server.metrics.limited.WithLabelValues(limit))
}

// stray connects to the server as a client of the Shoot that violates the protocol.
func (w *world) stray() *tls.Conn {
	w.t.Helper()
	config, err := w.ca.issue(w.t, "vpn-shoot").Client(ServiceName)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", w.clients, config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.NetConn().Close() })
	return conn
}

// ended waits until the peer has closed a connection.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
		t.Error("the connection is still open")
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Error("the connection is still open")
	}
}

func frame(kind byte, flags uint16, stream, length uint32) []byte {
	b := []byte{0, kind}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return binary.BigEndian.AppendUint32(b, length)
}

func TestClientThatOpensStreamsIsCutOff(t *testing.T) {
	w := newWorld(t)
	conn := w.stray()
	w.waitClients(1)
	if _, err := conn.Write(frame(frameWindow, flagOpen, 2, 0)); err != nil {
		t.Fatal(err)
	}
	ended(t, conn)
	w.waitClients(0)
	wait(t, "the breach is counted", func() bool { return w.limited(limitProtocol) == 1 })
}

func TestClientThatFloodsWithPingsIsCutOff(t *testing.T) {
	w := newWorld(t)
	conn := w.stray()
	w.waitClients(1)
	if _, err := conn.Write(bytes.Repeat(frame(framePing, flagOpen, 0, 7), maxPings+1)); err != nil {
		t.Fatal(err)
	}
	ended(t, conn)
	w.waitClients(0)
}

func TestOldestSessionGivesWay(t *testing.T) {
	w := newWorld(t)
	oldest := w.stray()
	w.waitClients(1)
	for n := range maxSessions - 1 {
		w.stray()
		w.waitClients(n + 2)
	}
	w.client() // It is accepted although all places are taken.
	ended(t, oldest)
	wait(t, "the eviction is counted", func() bool { return w.limited(limitSessions) == 1 })
	w.waitClients(maxSessions)
}

func TestPoolKeepsTheNewest(t *testing.T) {
	p := &pool{}
	var all []*member
	for i := range 3 * maxSessions {
		m := &member{}
		all = append(all, m)
		evicted := p.add(m)
		if i < maxSessions && evicted != nil || i >= maxSessions && evicted != all[i-maxSessions] {
			t.Errorf("session %d replaces the wrong one", i)
		}
		if p.size() > maxSessions {
			t.Errorf("%d sessions", p.size())
		}
	}
	p.remove(all[0]) // It was evicted.
	p.remove(all[len(all)-1])
	if p.size() != maxSessions-1 {
		t.Errorf("%d sessions after one has ended, want %d", p.size(), maxSessions-1)
	}
}

// Connections that never complete their handshake do not exclude others, at either port.
func TestStrangersDoNotKeepOthersOut(t *testing.T) {
	w := newWorld(t)
	addr := target(t, echo)
	var strangers []net.Conn
	for range 3 * maxHandshakes {
		for _, port := range []string{w.clients, w.proxy} {
			conn, err := net.Dial("tcp", port)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			strangers = append(strangers, conn)
		}
	}
	w.client()
	w.waitClients(1)
	conn, answer := w.connect(addr)
	conn.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("CONNECT: %s", answer.Status)
	}
	ended(t, strangers[0])
	ended(t, strangers[1])
	wait(t, "the dropped are counted", func() bool { return w.limited(limitHandshakes) >= 4*maxHandshakes })
}

func TestHeldBytesAreBounded(t *testing.T) {
	w := newWorld(t)
	config := sessionConfig(logr.Discard())
	session, err := yamux.Server(w.stray(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	go func() { // A client that accepts every dial and sends as much as a stream holds.
		for {
			y, err := session.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				if _, err := readFrame(y, maxTargetLength); err != nil || answerDial(y, nil) != nil {
					return
				}
				_, _ = y.Write(make([]byte, 1<<20))
			}()
		}
	}()
	w.waitClients(1)
	broken := make(chan int, 1000)
	for i := range maxHeld/window + 20 {
		c, err := w.server.open("10.250.0.7:1")
		if err != nil {
			t.Fatal(err)
		}
		s := c.(*stream)
		s.onFull(func() { broken <- i; s.Close() })
		defer s.Close()
	}
	for range 10 { // Nobody reads, so some streams are closed; the session stays.
		select {
		case <-broken:
		case <-time.After(20 * time.Second):
			t.Fatal("no stream was broken off")
		}
	}
	w.server.held.mu.Lock()
	total := w.server.held.total
	w.server.held.mu.Unlock()
	if total > maxHeld {
		t.Errorf("streams hold %d bytes, want at most %d", total, maxHeld)
	}
	if w.server.Connected() != 1 {
		t.Error("the session has ended")
	}
}

// A client that never confirms the end of streams cannot accumulate them.
func TestUnconfirmedStreamsAreBounded(t *testing.T) {
	w := newWorld(t)
	session, err := yamux.Server(w.stray(), sessionConfig(logr.Discard()))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	go func() {
		for {
			y, err := session.AcceptStream()
			if err != nil {
				return
			}
			if _, err := readFrame(y, maxTargetLength); err == nil {
				_ = answerDial(y, &dialError{dialForbidden, "no"})
			}
		}
	}()
	w.waitClients(1)
	p := w.server.tunnelProxy()
	for i := range maxTunnelConnections {
		if _, err := p.dial(t.Context(), "10.250.0.7:1"); statusCode(err) != http.StatusForbidden {
			t.Fatalf("dial %d: %v", i, err)
		}
	}
	_, err = p.dial(t.Context(), "10.250.0.7:1")
	if !errors.Is(err, errLimited) || statusCode(err) != http.StatusServiceUnavailable {
		t.Errorf("one too many: %v", err)
	}
}

func TestLedger(t *testing.T) {
	full := 0
	l := newLedger(100, func() { full++ })
	aborted := make(chan string, 10)
	a, b, c, other := holding{nil, 1}, holding{nil, 3}, holding{nil, 5}, holding{nil, 7}
	for name, h := range map[string]holding{"a": a, "b": b, "c": c} {
		l.begin(h)
		if h != c {
			l.onFull(h, func() { aborted <- name })
		}
	}
	check := func(h holding, bytes, total int) {
		t.Helper()
		if err := l.add(h, bytes); err != nil || l.total != total {
			t.Errorf("add(%d) = %v, total %d; want %d", bytes, err, l.total, total)
		}
	}
	check(other, 1000, 0) // Not open: the multiplexer discards it.
	check(a, 60, 60)
	check(b, 40, 100)
	l.taken(a, 30)
	check(b, 30, 100)
	check(c, 10, 40) // The fullest stream, b, is closed.
	if got := <-aborted; got != "b" || full != 1 {
		t.Errorf("%s was broken off, counted %d times", got, full)
	}
	check(b, 1000, 40)
	l.taken(b, 1000)
	l.taken(c, 5)
	l.end(a)
	l.end(a)
	if l.total != 5 {
		t.Errorf("total %d, want 5", l.total)
	}
	l.taken(c, 1000) // More than was counted.
	if l.total != 0 {
		t.Errorf("total %d, want 0", l.total)
	}
	if err := l.add(c, 101); !errors.Is(err, errHeld) {
		t.Errorf("without a stream to close: %v", err)
	}
}

func TestGuard(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ping := frame(framePing, flagOpen, 0, 1)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, tc := range map[string]struct {
		sent []byte
		want error
	}{
		"an answer on a stream": {
			join(frame(frameWindow, 2, 1, 0), frame(frameData, 2, 1, 4), []byte{0, 0, 0, 1}), nil,
		},
		"contents that look like a new stream": {
			join(frame(frameData, 0, 1, frameHeader), frame(frameWindow, flagOpen, 2, 0)), nil,
		},
		"a new stream":           {frame(frameWindow, flagOpen, 2, 0), errClientStream},
		"a new stream with data": {join(frame(frameData, flagOpen, 2, 1), []byte{1}), errClientStream},
		"a new stream after contents": {
			join(frame(frameData, 0, 1, 2), []byte{1, 2}, frame(frameWindow, flagOpen|4, 2, 0)), errClientStream,
		},
		"pings":            {bytes.Repeat(ping, maxPings), nil},
		"too many pings":   {bytes.Repeat(ping, maxPings+1), errPings},
		"answers to pings": {bytes.Repeat(frame(framePing, 2, 0, 1), 10*maxPings), nil},
		"a farewell":       {frame(3, 0, 0, 0), nil},
		"half a header":    {ping[:5], nil},
	} {
		for size := 1; size <= len(tc.sent); size += 5 {
			g := &guard{held: newLedger(1<<30, func() {}), now: func() time.Time { return start }}
			var err error
			for rest := tc.sent; len(rest) > 0 && err == nil; rest = rest[min(size, len(rest)):] {
				err = g.look(rest[:min(size, len(rest))])
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("%s in pieces of %d: %v, want %v", name, size, err, tc.want)
			}
		}
	}
	now := start
	g := &guard{held: newLedger(1<<30, func() {}), now: func() time.Time { return now }}
	for range 20 {
		if err := g.look(bytes.Repeat(ping, maxPings)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(keepAliveInterval)
	}
}

// FuzzGuard: the result does not depend on the pieces in which bytes arrive.
func FuzzGuard(f *testing.F) {
	f.Add(frame(frameWindow, flagOpen, 2, 0), 3)
	f.Add(append(frame(frameData, 0, 1, 5), "hello"...), 7)
	f.Add(bytes.Repeat(frame(framePing, flagOpen, 0, 1), maxPings+1), 12)
	f.Fuzz(func(t *testing.T, sent []byte, size int) {
		size = max(1, size%64)
		run := func(size int) (string, int) {
			l := newLedger(1<<20, func() {})
			g := &guard{held: l, now: func() time.Time { return time.Time{} }}
			l.begin(holding{g, 1})
			for rest := sent; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if err := g.look(rest[:min(size, len(rest))]); err != nil {
					return err.Error(), l.total
				}
			}
			return "", l.total
		}
		one, oneTotal := run(max(1, len(sent)))
		many, manyTotal := run(size)
		if one != many || oneTotal != manyTotal {
			t.Errorf("at once: %q, %d; in pieces: %q, %d", one, oneTotal, many, manyTotal)
		}
	})
}

// FuzzFrame: a message is read as it was written, and never exceeds the limit.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 3, 'a', 'b', 'c'})
	f.Add([]byte{255, 255})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := readFrame(bytes.NewReader(b), maxTargetLength)
		if err != nil {
			return
		}
		var again bytes.Buffer
		err = writeFrame(&again, nil, text, maxTargetLength)
		if err != nil || !bytes.HasPrefix(b, again.Bytes()) || len(text) > maxTargetLength {
			t.Errorf("%q was read as %q, which is written as %q, error %v", b, text, again.Bytes(), err)
		}
	})
}

// FuzzRequest: everything except a CONNECT to host:port is rejected, the read bytes are bounded, and no later bytes are
// lost.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("CONNECT a.example:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nrest"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add([]byte("CONNECT a HTTP/1.1\r\n\r\n"))
	f.Add([]byte("CONNECT [::1]:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		target, early, code, problem := readRequest(r)
		if len(b)-r.Len() > maxHeader {
			t.Errorf("read %d bytes", len(b)-r.Len())
		}
		if problem != "" {
			if target != "" || code != 0 && http.StatusText(code) == "" {
				t.Errorf("%q: %q, %d", problem, target, code)
			}
			return
		}
		if _, _, err := net.SplitHostPort(target); err != nil || !bytes.HasSuffix(b[:len(b)-r.Len()], early) {
			t.Errorf("%q leads to %q, and %q follows", b, target, early)
		}
	})
}

func TestRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		request, target, early string
		code                   int
	}{
		"of an API server": {request: "CONNECT a.example:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", target: "a.example:443"},
		"with data behind": {request: "CONNECT 1.2.3.4:443 HTTP/1.1\r\n\r\nhello", target: "1.2.3.4:443", early: "hello"},
		"another method":   {request: "GET http://a.example:80/ HTTP/1.1\r\n\r\n", code: 405},
		"without port":     {request: "CONNECT a.example HTTP/1.1\r\n\r\n", code: 400},
		"no HTTP":          {request: "hello\r\n\r\n", code: 400},
		"too long": {
			request: "CONNECT a:1 HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", code: 431,
		},
		"nothing at all":    {request: ""},
		"cut in the middle": {request: "CONNECT a.example:443 HT", code: 400},
	} {
		target, early, code, problem := readRequest(strings.NewReader(tc.request))
		if target != tc.target || string(early) != tc.early || code != tc.code || (problem == "") != (tc.target != "") {
			t.Errorf("%s: %q, %q, %d, %q", name, target, early, code, problem)
		}
	}
}

// Requests above the limit are refused, and a place is free again once a connection has ended.
func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld(t)
	addr := target(t, echo)
	w.client()
	w.waitClients(1)
	p := w.server.tunnelProxy()
	p.slots = make(chan struct{}, 2)
	w.proxy = serveProxy(t, w, p)
	var open []net.Conn
	for range 2 {
		conn, answer := w.connect(addr)
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("CONNECT: %s", answer.Status)
		}
		open = append(open, conn)
	}
	conn, answer := w.connect(addr)
	conn.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || w.limited(limitConnections) != 1 {
		t.Errorf("one too many: %s, counted %v", answer.Status, w.limited(limitConnections))
	}
	open[0].Close()
	wait(t, "a place is free", func() bool { return len(p.slots) == 1 })
	conn, answer = w.connect(addr)
	conn.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("after one has ended: %s", answer.Status)
	}
	conn, answer = w.connect("10.250.0.7:1") // It is refused, and occupies no place.
	conn.Close()
	open[1].Close()
	wait(t, "all places are free", func() bool { return len(p.slots) == 0 })
	if answer.StatusCode == http.StatusOK {
		t.Errorf("CONNECT to a closed port: %s", answer.Status)
	}
}

// serveProxy serves another proxy of the world's server.
func serveProxy(t *testing.T, w *world, p *proxy) (address string) {
	t.Helper()
	l := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = newHandshakes(l, w.server.Certs.Server(), APIServerCommonName, logr.Discard(), func() {}).serve(ctx, p.connection)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l.Addr().String()
}

func results(t *testing.T, c *prometheus.CounterVec) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			key := ""
			for _, l := range m.Label {
				key += fmt.Sprintf("/%s", l.GetValue())
			}
			out[key] += m.Counter.GetValue()
		}
	}
	return out
}

func checkResults(t *testing.T, c *prometheus.CounterVec, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, results(t, c)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}
