package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/internal/tunnel/relay"
)

const (
	// headerTimeout bounds how long a client may take to say where it wants to go.
	headerTimeout = 10 * time.Second
	// dialTimeout bounds connecting to one backend; it is in the same cluster.
	dialTimeout = 5 * time.Second
	// maxConnections bounds the connections of one listener, so that a flood ends in waiting clients rather than in a
	// killed process: an idle connection costs two descriptors and about 20 KiB.
	maxConnections = 20000
	// acceptRetry is the pause after a failed accept, usually for want of descriptors.
	acceptRetry = 50 * time.Millisecond
)

// Server forwards connections. Create it with NewServer.
type Server struct {
	// Drain is how long connections may go on after the end was asked for. Zero cuts them at once.
	Drain time.Duration

	log     logr.Logger
	metrics *metrics
	table   atomic.Pointer[Table]

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// NewServer returns a server with an empty table: it refuses everything.
func NewServer(log logr.Logger, r prometheus.Registerer) *Server {
	s := &Server{log: log, metrics: newMetrics(r), conns: map[net.Conn]struct{}{}}
	s.SetTable(&Table{})
	return s
}

// SetTable replaces the routing table for connections to come. Open ones go on.
func (s *Server) SetTable(t *Table) {
	s.table.Store(t)
	s.metrics.routes.Set(float64(len(t.exact) + len(t.wildcard) + len(t.destinations)))
}

// Listeners are the ports of the gateway. A nil one is not served.
type Listeners struct{ TLS, Connect, Proxy net.Listener }

// Serve forwards connections until ctx ends, stops accepting, lets open connections go on for the drain time, closes
// them and returns.
func (s *Server) Serve(ctx context.Context, l Listeners) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var served []net.Listener
	for _, p := range []struct {
		name     string
		listener net.Listener
		handle   func(net.Conn) (routed, string)
	}{
		{"tls", l.TLS, s.tls},
		{"connect", l.Connect, s.connect},
		{"proxy", l.Proxy, s.proxy},
	} {
		if p.listener != nil {
			served = append(served, p.listener)
			wg.Go(func() { s.accept(ctx, &wg, p.name, p.listener, p.handle) })
		}
	}
	<-ctx.Done()
	var errs []error
	for _, p := range served {
		errs = append(errs, p.Close())
	}
	s.drain(&wg)
	return errors.Join(errs...)
}

// drain waits for the open connections, at most the drain time, and closes those that are left.
func (s *Server) drain(wg *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timer := time.NewTimer(s.Drain)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	<-done
}

// routed is a connection that found its backend.
type routed struct {
	down, up net.Conn
}

// Results of a connection, as the metric shows them.
const (
	resultRouted      = "routed"
	resultRefused     = "refused"     // Asked for something that is not in the table.
	resultMalformed   = "malformed"   // Did not speak the protocol of the port, or not in time.
	resultUnreachable = "unreachable" // No backend accepted the connection.
)

func (s *Server) accept(ctx context.Context, wg *sync.WaitGroup, name string, l net.Listener, handle func(net.Conn) (routed, string)) {
	slots := make(chan struct{}, maxConnections)
	for {
		slots <- struct{}{}
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			s.log.Error(err, "Cannot accept", "listener", name)
			<-slots
			time.Sleep(acceptRetry)
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			s.serve(name, conn, handle)
		})
	}
}

// serve runs one connection from accept to close.
func (s *Server) serve(name string, conn net.Conn, handle func(net.Conn) (routed, string)) {
	s.track(conn, true)
	defer s.track(conn, false)
	defer conn.Close()
	open := s.metrics.open.WithLabelValues(name)
	open.Inc()
	defer open.Dec()

	_ = conn.SetDeadline(time.Now().Add(headerTimeout))
	r, result := handle(conn)
	s.metrics.connections.WithLabelValues(name, result).Inc()
	if result != resultRouted {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	s.track(r.up, true)
	defer s.track(r.up, false)
	in, out := relay.Both(r.down, r.up)
	s.metrics.bytes.WithLabelValues(name, "in").Add(float64(in))
	s.metrics.bytes.WithLabelValues(name, "out").Add(float64(out))
}

func (s *Server) track(c net.Conn, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.conns[c] = struct{}{}
	} else {
		delete(s.conns, c)
	}
}

// tls serves port 443: by server name.
func (s *Server) tls(conn net.Conn) (routed, string) {
	name, hello, err := readClientHello(conn)
	if err != nil {
		s.log.V(2).Info("No ClientHello", "peer", conn.RemoteAddr().String(), "reason", err.Error())
		return routed{}, resultMalformed
	}
	backends := s.table.Load().ServerName(name)
	if len(backends) == 0 {
		s.log.V(1).Info("No route", "serverName", name, "peer", conn.RemoteAddr().String())
		return routed{}, resultRefused
	}
	return s.forward(conn, hello, backends...)
}

// connect serves port 8132: by destination header.
func (s *Server) connect(conn net.Conn) (routed, string) {
	req, err := readConnect(conn)
	if err != nil {
		return routed{}, resultMalformed
	}
	if !req.ok {
		_, _ = conn.Write([]byte(redirect(req.location)))
		return routed{}, resultRefused
	}
	backend, ok := s.table.Load().Destination(req.destination)
	if !ok {
		s.log.V(1).Info("No such destination", "service", req.destination.Service.String(), "port", req.destination.Port)
		_, _ = conn.Write([]byte(connectUnavailable))
		return routed{}, resultRefused
	}
	r, result := s.forward(conn, req.early, backend)
	answer := connectEstablished
	if result != resultRouted {
		answer = connectUnavailable
	}
	if _, err := conn.Write([]byte(answer)); err != nil && result == resultRouted {
		_ = r.up.Close()
		return routed{}, resultMalformed
	}
	return r, result
}

// proxy serves port 8443: by the destination in the PROXY header.
func (s *Server) proxy(conn net.Conn) (routed, string) {
	to, early, err := readProxyHeader(conn)
	if err != nil {
		s.log.V(2).Info("No PROXY header", "peer", conn.RemoteAddr().String(), "reason", err.Error())
		return routed{}, resultMalformed
	}
	backend, ok := s.table.Load().APIServer(to)
	if !ok {
		s.log.V(1).Info("No API server has this address", "destination", to.String())
		return routed{}, resultRefused
	}
	return s.forward(conn, early, backend)
}

// forward connects to the first backend that accepts and sends it what was read already. It does so also when the end has been
// asked for meanwhile: the client was accepted before.
func (s *Server) forward(down net.Conn, early []byte, backends ...Backend) (routed, string) {
	var errs []error
	for _, b := range backends {
		up, err := net.DialTimeout("tcp", b.Address.String(), dialTimeout)
		if err != nil {
			errs = append(errs, fmt.Errorf("dial Service %s: %w", b.Service, err))
			continue
		}
		_ = up.SetWriteDeadline(time.Now().Add(dialTimeout))
		if _, err := up.Write(early); err != nil {
			_ = up.Close()
			errs = append(errs, fmt.Errorf("write to Service %s: %w", b.Service, err))
			continue
		}
		_ = up.SetWriteDeadline(time.Time{})
		return routed{down: down, up: up}, resultRouted
	}
	s.log.Info("No backend reached", "reason", errors.Join(errs...).Error())
	return routed{}, resultUnreachable
}
