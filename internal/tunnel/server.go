package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/yamux"
	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/internal/tunnel/certs"
	"hortus.dev/hortus/internal/tunnel/relay"
)

const (
	// handshakeTimeout bounds TLS handshakes and request headers; both sides are programs in a data centre.
	handshakeTimeout = 10 * time.Second
	// requestTimeout bounds what a request waits for its target. The API server's own dial timeout is 30 s, and it
	// should see our error rather than its own.
	requestTimeout = 15 * time.Second
)

// Server accepts tunnel clients and gives the API server connections through them.
type Server struct {
	Certs    *certs.Files // Verifies clients and API server against the VPN CA.
	Log      logr.Logger
	Registry prometheus.Registerer

	pool    pool
	metrics *serverMetrics
}

// Serve accepts clients on clients and requests on proxy until ctx ends, closes both listeners and every connection,
// and returns when all of its goroutines have ended.
func (s *Server) Serve(ctx context.Context, clients, proxy net.Listener) error {
	s.metrics = newServerMetrics(s.Registry)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	errs := make(chan error, 2)

	web := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.connect(ctx, w, r) }),
		ReadHeaderTimeout: handshakeTimeout,
		// CONNECT needs the raw connection, which HTTP/2 cannot give.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     log.New(logWriter{s.Log.V(1)}, "", 0),
	}
	wg.Go(func() {
		if err := web.Serve(tls.NewListener(proxy, s.Certs.Server())); !errors.Is(err, http.ErrServerClosed) {
			errs <- fmt.Errorf("serve requests: %w", err)
		}
		cancel()
	})
	wg.Go(func() {
		if err := s.acceptClients(ctx, clients); err != nil {
			errs <- fmt.Errorf("accept clients: %w", err)
		}
		cancel()
	})
	<-ctx.Done()
	_ = web.Close()
	_ = clients.Close()
	s.pool.closeAll()
	wg.Wait()
	close(errs)
	return errors.Join(<-errs, <-errs)
}

// Connected reports how many clients have a session.
func (s *Server) Connected() int { return s.pool.size() }

func (s *Server) acceptClients(ctx context.Context, l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		wg.Go(func() { s.client(ctx, conn) })
	}
}

// client serves one client connection until its session ends.
func (s *Server) client(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	log := s.Log.WithValues("peer", raw.RemoteAddr().String())
	conn := tls.Server(raw, s.Certs.Server())
	handshake, cancel := context.WithTimeout(ctx, handshakeTimeout)
	err := conn.HandshakeContext(handshake)
	cancel()
	if err != nil {
		// Load balancers probe ports by connecting and closing, so this is no news.
		log.V(1).Info("Client handshake failed", "reason", err.Error())
		return
	}
	log = log.WithValues("client", conn.ConnectionState().PeerCertificates[0].Subject.CommonName)
	session, err := yamux.Client(conn, sessionConfig(log))
	if err != nil {
		log.Error(err, "Cannot open session")
		return
	}
	defer session.Close()
	s.pool.add(session)
	s.metrics.sessions.Inc()
	log.Info("Client connected", "sessions", s.pool.size())
	select {
	case <-session.CloseChan():
	case <-ctx.Done():
	}
	s.pool.remove(session)
	s.metrics.sessions.Dec()
	log.Info("Client gone", "sessions", s.pool.size())
}

// connect answers one CONNECT request of the API server.
func (s *Server) connect(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		s.refuse(w, http.StatusMethodNotAllowed, "only CONNECT is served here")
		return
	}
	target := r.Host
	if _, _, err := net.SplitHostPort(target); err != nil {
		s.refuse(w, http.StatusBadRequest, "the target must be host:port")
		return
	}
	up, err := s.open(target)
	if err != nil {
		code := statusCode(err)
		s.Log.V(1).Info("Target not reached", "target", target, "code", code, "reason", err.Error())
		s.refuse(w, code, err.Error())
		return
	}
	down, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = up.Close()
		s.refuse(w, http.StatusInternalServerError, "connection cannot be taken over")
		return
	}
	s.metrics.requests.WithLabelValues("200").Inc()
	_ = down.SetDeadline(time.Time{})
	var early []byte
	if n := buffered.Reader.Buffered(); n > 0 {
		early, _ = buffered.Reader.Peek(n)
	}
	if _, err := down.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		_, _ = up.Close(), down.Close()
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = down.Close() })
	defer stop()
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	in, out := relay.Both(relay.WithPrefix(down, early), up)
	s.metrics.bytes.WithLabelValues("to_shoot").Add(float64(in))
	s.metrics.bytes.WithLabelValues("from_shoot").Add(float64(out))
}

func (s *Server) refuse(w http.ResponseWriter, code int, message string) {
	s.metrics.requests.WithLabelValues(strconv.Itoa(code)).Inc()
	w.Header().Set("Connection", "close")
	http.Error(w, message, code)
}

var errNoClient = errors.New("no tunnel client is connected")

// open returns a connection to target through one of the clients. A client that fails as such is passed over; one
// that could not dial has the final word, since the others sit in the same network.
func (s *Server) open(target string) (net.Conn, error) {
	err := errNoClient
	for _, session := range s.pool.order() {
		y, openErr := session.OpenStream()
		if openErr != nil {
			err = fmt.Errorf("open stream: %w", openErr)
			continue
		}
		conn := stream{y}
		dialErr := requestDial(conn, target, requestTimeout)
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
	case errors.Is(err, errNoClient):
		return http.StatusServiceUnavailable
	case errors.As(err, &failed) && failed.code == dialForbidden:
		return http.StatusForbidden
	case errors.As(err, &failed) && failed.code == dialTimeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusBadGateway
	}
}

// logWriter turns lines of a standard logger into structured ones.
type logWriter struct{ log logr.Logger }

func (w logWriter) Write(b []byte) (int, error) {
	w.log.Info("HTTP server", "message", string(b))
	return len(b), nil
}
