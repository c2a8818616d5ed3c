package tunnel

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/go-logr/logr"

	"hortus.dev/hortus/internal/tunnel/gate"
)

// handshakes accepts connections and passes on those whose TLS handshake is complete. There are at most maxHandshakes
// others.
type handshakes struct {
	listener net.Listener
	config   *tls.Config
	peer     string // Common name of the peer that the port is for.
	log      logr.Logger
	gate     *gate.Gate
	ready    chan *tls.Conn
}

// newHandshakes returns handshakes with one peer; dropped is called for each connection that is closed for a newer one.
func newHandshakes(l net.Listener, config *tls.Config, peer string, log logr.Logger, dropped func()) *handshakes {
	return &handshakes{listener: l, config: config, peer: peer, log: log, ready: make(chan *tls.Conn),
		gate: &gate.Gate{Max: maxHandshakes, GaveWay: dropped, Log: log}}
}

// serve passes every connection to handle until ctx ends, and returns when all of them have ended.
func (h *handshakes) serve(ctx context.Context, handle func(context.Context, *tls.Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		defer cancel()
		err = h.run(ctx)
	})
	for {
		select {
		case conn := <-h.ready:
			wg.Go(func() { handle(ctx, conn) })
		case <-ctx.Done():
			wg.Wait()
			return err
		}
	}
}

// run accepts until ctx ends or the listener is closed, and returns when all handshakes have ended.
func (h *handshakes) run(ctx context.Context) error {
	return h.gate.Serve(ctx, h.listener, func(conn net.Conn) { h.handshake(ctx, conn) })
}

func (h *handshakes) handshake(ctx context.Context, raw net.Conn) {
	conn := tls.Server(raw, h.config)
	limited, cancel := context.WithTimeout(ctx, handshakeTimeout)
	err := conn.HandshakeContext(limited)
	cancel()
	h.gate.Pass(raw)
	if err != nil {
		// Load balancers probe ports by connecting and closing, so this is expected.
		h.log.V(1).Info("Handshake failed", "peer", raw.RemoteAddr().String(), "reason", err.Error())
		_ = raw.Close()
		return
	}
	if name := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; name != h.peer {
		h.log.Info("Refused a certificate issued for another purpose", "peer", raw.RemoteAddr().String(), "commonName", name)
		_ = raw.Close()
		return
	}
	select {
	case h.ready <- conn:
	case <-ctx.Done():
		_ = raw.Close()
	}
}
