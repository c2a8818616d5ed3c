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
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/tunnel/gate"
	"hortus.dev/hortus/internal/tunnel/relay"
)

// Server forwards connections. Create it with NewServer.
type Server struct {
	// Delay is how long new connections are still accepted on shutdown: until all load balancers have noticed that the
	// pod is terminating.
	Delay time.Duration
	// Drain is how long open connections may continue after that. Zero cuts them at once.
	Drain time.Duration
	// Clock measures these times, and the time since refusals were reported. Deadlines of connections use real time.
	Clock clock.Clock

	log       logr.Logger
	metrics   *metrics
	table     atomic.Pointer[Table]
	undecided int                // Bound per port.
	places    map[string]*places // By port.
	limits    relay.Limits

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// NewServer returns a server with an empty table: it refuses everything.
func NewServer(log logr.Logger, r prometheus.Registerer) *Server {
	s := &Server{Clock: clock.RealClock{}, log: log, metrics: newMetrics(r), undecided: maxUndecided,
		limits: connectionLimits,
		places: map[string]*places{
			portTLS: newPlaces(maxTLS), portProxy: newPlaces(maxProxy), portConnect: newPlaces(maxConnect),
		},
		conns: map[net.Conn]struct{}{}}
	s.SetTable(&Table{})
	return s
}

// SetTable replaces the routing table for connections to come. Open ones continue.
func (s *Server) SetTable(t *Table) {
	s.table.Store(t)
	s.metrics.routes.Set(float64(len(t.exact) + len(t.wildcard) + len(t.destinations)))
}

// Listeners are the ports of the gateway. A nil one is not served.
type Listeners struct{ TLS, Connect, Proxy net.Listener }

// Serve forwards connections until ctx ends. Then it accepts new ones for the delay, lets open ones continue for the
// drain time, closes them and returns.
func (s *Server) Serve(ctx context.Context, l Listeners) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	accepting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, p := range []struct {
		name     string
		listener net.Listener
		read     func(net.Conn) request
	}{
		{portTLS, l.TLS, s.readTLS},
		{portConnect, l.Connect, s.readConnect},
		{portProxy, l.Proxy, s.readProxy},
	} {
		if p.listener == nil {
			continue
		}
		g := &gate.Gate{Max: s.undecided, GaveWay: s.metrics.limited.WithLabelValues(p.name, limitUndecided).Inc,
			Log: s.log.WithValues("listener", p.name)}
		wg.Go(func() {
			defer cancel()
			err := g.Serve(accepting, p.listener, func(conn net.Conn) {
				s.serve(p.name, conn, func() request {
					defer g.Pass(conn)
					return p.read(conn)
				})
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("serve %s: %w", p.name, err))
			}
		})
	}
	<-ctx.Done()
	<-s.Clock.After(s.Delay)
	stop()
	s.drain(&wg)
	return errors.Join(errs...)
}

// drain waits for the open connections, at most the drain time, and closes those that are left.
func (s *Server) drain(wg *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timer := s.Clock.NewTimer(s.Drain)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C():
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	<-done
}

// request is the request of a client.
type request struct {
	backends []Backend // In the order in which to try them, all in one namespace.
	early    []byte    // Bytes that were read already, to be sent on.
	refused  string    // The result if there are no backends.
	// answer returns the response to the client, by result; nil means that none is sent.
	answer func(result string) string
}

// Results of a connection, as the metric shows them.
const (
	resultRouted      = "routed"
	resultRefused     = "refused"     // Requested a destination that is not in the table.
	resultMalformed   = "malformed"   // Did not speak the protocol of the port, or not in time.
	resultLimited     = "limited"     // The control plane has too many connections of the port.
	resultUnreachable = "unreachable" // No backend accepted the connection.
)

// serve runs one connection from accept to close.
func (s *Server) serve(name string, conn net.Conn, read func() request) {
	s.track(conn, true)
	defer s.track(conn, false)
	defer conn.Close()
	open := s.metrics.open.WithLabelValues(name)
	open.Inc()
	defer open.Dec()

	bound(conn, clientReceiveBuffer)
	_ = conn.SetDeadline(time.Now().Add(headerTimeout))
	r := read()
	if len(r.backends) == 0 {
		_ = s.answer(name, conn, r, r.refused)
		return
	}
	namespace := r.backends[0].Service.Namespace
	places := s.places[name]
	ok, report := places.take(namespace, s.Clock.Now())
	if !ok {
		if report {
			s.log.Info("Control plane has too many connections", "namespace", namespace, "listener", name)
		}
		s.metrics.limited.WithLabelValues(name, limitDestination).Inc()
		_ = s.answer(name, conn, r, resultLimited)
		return
	}
	defer places.release(namespace)
	up := s.dial(r)
	if up == nil {
		_ = s.answer(name, conn, r, resultUnreachable)
		return
	}
	defer up.Close()
	if s.answer(name, conn, r, resultRouted) != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	s.track(up, true)
	defer s.track(up, false)
	in, out := s.limits.Both(conn, up)
	s.metrics.bytes.WithLabelValues(name, "in").Add(float64(in))
	s.metrics.bytes.WithLabelValues(name, "out").Add(float64(out))
}

// answer counts a connection and sends the response to the client.
func (s *Server) answer(name string, conn net.Conn, r request, result string) error {
	s.metrics.connections.WithLabelValues(name, result).Inc()
	if r.answer == nil {
		return nil
	}
	_, err := conn.Write([]byte(r.answer(result)))
	return err
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

// readTLS serves port 443: by SNI.
func (s *Server) readTLS(conn net.Conn) request {
	name, hello, err := readClientHello(conn)
	if err != nil {
		s.log.V(2).Info("No ClientHello", "peer", conn.RemoteAddr().String(), "reason", err.Error())
		return request{refused: resultMalformed}
	}
	backends := s.table.Load().ServerName(name)
	if len(backends) == 0 {
		s.log.V(1).Info("No route", "serverName", name, "peer", conn.RemoteAddr().String())
		return request{refused: resultRefused}
	}
	return request{backends: backends, early: hello}
}

// readConnect serves port 8132: by destination header.
func (s *Server) readConnect(conn net.Conn) request {
	req, err := readConnect(conn)
	if err != nil {
		return request{refused: resultMalformed}
	}
	if !req.ok {
		return request{refused: resultRefused, answer: func(string) string { return redirect(req.location) }}
	}
	backend, ok := s.table.Load().Destination(req.destination)
	if !ok {
		s.log.V(1).Info("No such destination", "service", req.destination.Service.String(), "port", req.destination.Port)
		return request{refused: resultRefused, answer: connectAnswer}
	}
	return request{backends: []Backend{backend}, early: req.early, answer: connectAnswer}
}

// readProxy serves port 8443: by the destination in the PROXY header.
func (s *Server) readProxy(conn net.Conn) request {
	to, early, err := readProxyHeader(conn)
	if err != nil {
		s.log.V(2).Info("No PROXY header", "peer", conn.RemoteAddr().String(), "reason", err.Error())
		return request{refused: resultMalformed}
	}
	backend, ok := s.table.Load().APIServer(to)
	if !ok {
		s.log.V(1).Info("No API server has this address", "destination", to.String())
		return request{refused: resultRefused}
	}
	return request{backends: []Backend{backend}, early: early}
}

// dial connects to the first backend that accepts, and sends it the bytes that were already read; nil if none accepts.
// It also does so during shutdown, since the client was accepted before.
func (s *Server) dial(r request) net.Conn {
	var errs []error
	for _, b := range r.backends {
		up, err := net.DialTimeout("tcp", b.Address.String(), dialTimeout)
		if err != nil {
			errs = append(errs, fmt.Errorf("dial Service %s: %w", b.Service, err))
			continue
		}
		bound(up, backendReceiveBuffer)
		_ = up.SetWriteDeadline(time.Now().Add(dialTimeout))
		if _, err := up.Write(r.early); err != nil {
			_ = up.Close()
			errs = append(errs, fmt.Errorf("write to Service %s: %w", b.Service, err))
			continue
		}
		_ = up.SetWriteDeadline(time.Time{})
		return up
	}
	s.log.Info("No backend of a route can be reached", "reason", errors.Join(errs...).Error())
	return nil
}
