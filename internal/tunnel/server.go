package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/yamux"
	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/internal/egress"
	"hortus.dev/hortus/internal/tunnel/certs"
)

const (
	// handshakeTimeout bounds TLS handshakes, request headers and answers; both sides are programs in a data centre.
	handshakeTimeout = 10 * time.Second
	// requestTimeout bounds how long a request waits for its target. The API server's own dial timeout is 30 s, and it
	// should receive the error of this server rather than its own.
	requestTimeout = 15 * time.Second
)

// Server accepts tunnel clients and gives the API server connections through them, and to the outside.
type Server struct {
	Certs    *certs.Files // Verifies clients and API server against the VPN CA.
	Log      logr.Logger
	Registry prometheus.Registerer
	// Inside are the rules for the addresses that clients may be requested to dial; nil allows all. With rules, names are
	// refused, since the Shoot decides what they resolve to.
	Inside *egress.Rules
	// Egress connects to the outside. Required with Listeners.Egress, and without Listeners.Clients.
	Egress *egress.Dialer

	pool    pool
	held    *ledger
	metrics *serverMetrics
}

// Listeners are the ports of a Server.
type Listeners struct {
	// Clients is for tunnel clients; nil if there is no tunnel.
	Clients net.Listener
	// Proxy is for the API server's egress selector "cluster". Requests go through the tunnel, or outside if there is
	// none.
	Proxy net.Listener
	// Egress is for the egress selector "controlplane", whose requests go outside; nil is not served.
	Egress net.Listener
}

// Common names of the peers that connect. One CA signs for both, and the client's certificate is in the Shoot: it must
// not give access to the ports of the API server.
const (
	ClientCommonName    = "vpn-shoot"
	APIServerCommonName = "kube-apiserver-http-proxy"
)

// Serve serves until ctx ends, closes the listeners and every connection, and returns when all of its goroutines have
// ended.
func (s *Server) Serve(ctx context.Context, l Listeners) error {
	s.metrics = newServerMetrics(s.Registry)
	s.held = newLedger(maxHeld, s.metrics.limited.WithLabelValues(limitHeld).Inc)
	if s.Egress == nil && (l.Clients == nil || l.Egress != nil) {
		return errors.New("nothing connects to the outside")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	serve := func(what, peer string, l net.Listener, handle func(context.Context, *tls.Conn)) {
		h := newHandshakes(
			l, s.Certs.Server(), peer, s.Log.WithValues("port", what),
			s.metrics.limited.WithLabelValues(limitHandshakes).Inc,
		)
		wg.Go(func() {
			defer cancel()
			if err := h.serve(ctx, handle); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("serve %s: %w", what, err))
			}
		})
	}
	if l.Clients != nil {
		serve("clients", ClientCommonName, l.Clients, s.client)
		serve("proxy", APIServerCommonName, l.Proxy, s.tunnelProxy().connection)
	} else {
		serve("proxy", APIServerCommonName, l.Proxy, s.egressProxy(selectorCluster).connection)
	}
	if l.Egress != nil {
		serve("egress", APIServerCommonName, l.Egress, s.egressProxy(selectorControlPlane).connection)
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Connected reports how many clients have a session.
func (s *Server) Connected() int { return s.pool.size() }

// client serves one client connection until its session ends.
func (s *Server) client(ctx context.Context, conn *tls.Conn) {
	raw := conn.NetConn()
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	log := s.Log.WithValues("peer", raw.RemoteAddr().String(),
		"client", conn.ConnectionState().PeerCertificates[0].Subject.CommonName)
	g := &guard{Conn: conn, held: s.held, now: time.Now}
	config := sessionConfig(log)
	config.AcceptBacklog = openBacklog
	config.StreamOpenTimeout = requestTimeout
	session, err := yamux.Client(g, config)
	if err != nil {
		log.Error(err, "Failed to open session")
		return
	}
	defer session.Close()
	m := &member{session: session, guard: g}
	if evicted := s.pool.add(m); evicted != nil {
		log.Info("Closing the oldest session", "sessions", maxSessions)
		s.metrics.limited.WithLabelValues(limitSessions).Inc()
		_ = evicted.guard.raw().Close()
	}
	s.metrics.sessions.Inc()
	log.Info("Client connected", "sessions", s.pool.size())
	select {
	case <-session.CloseChan():
	case <-ctx.Done():
	}
	s.pool.remove(m)
	s.metrics.sessions.Dec()
	if breach := g.breach(); breach != nil {
		s.metrics.limited.WithLabelValues(limitProtocol).Inc()
		log.Info("Client refused", "reason", breach.Error(), "sessions", s.pool.size())
		return
	}
	log.Info("Client gone", "sessions", s.pool.size())
}

var errNoClient = errors.New("no tunnel client is connected")

// open returns a connection to target through one of the clients. If a client itself fails, the next one is tried while
// there is time; a failed dial is final, since the other clients are in the same network.
func (s *Server) open(target string) (net.Conn, error) {
	deadline := time.Now().Add(requestTimeout)
	err := errNoClient
	for _, m := range s.pool.order() {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		y, openErr := m.session.OpenStream()
		if openErr != nil {
			err = fmt.Errorf("open stream: %w", openErr)
			continue
		}
		conn := newStream(y, s.held, m.guard)
		dialErr := requestDial(conn, target, left)
		if dialErr == nil {
			return conn, nil
		}
		_ = conn.Close()
		err = fmt.Errorf("dial %s: %w", target, dialErr)
		var answered *dialError
		if errors.As(dialErr, &answered) {
			return nil, err
		}
	}
	return nil, err
}

func statusCode(err error) int {
	var failed *dialError
	switch {
	case errors.Is(err, errNoClient), errors.Is(err, errLimited):
		return http.StatusServiceUnavailable
	case errors.As(err, &failed) && failed.code == dialForbidden:
		return http.StatusForbidden
	case errors.As(err, &failed) && failed.code == dialTimeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusBadGateway
	}
}
