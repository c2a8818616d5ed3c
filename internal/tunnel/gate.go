package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// gate accepts connections and hands over those whose TLS handshake is complete. Of the others there are at most
// maxHandshakes: the oldest gives way to a new one, so that connections that only stay open keep nobody out.
type gate struct {
	listener net.Listener
	config   *tls.Config
	log      logr.Logger
	dropped  func() // Called for each connection that had to give way.

	ready   chan *tls.Conn
	mu      sync.Mutex
	pending []net.Conn // The oldest first.
}

func newGate(l net.Listener, config *tls.Config, log logr.Logger, dropped func()) *gate {
	return &gate{listener: l, config: config, log: log, dropped: dropped, ready: make(chan *tls.Conn)}
}

// serve hands every connection to handle until ctx ends, and returns when all of them have ended.
func (g *gate) serve(ctx context.Context, handle func(context.Context, *tls.Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		defer cancel()
		err = g.run(ctx)
	})
	for {
		select {
		case conn := <-g.ready:
			wg.Go(func() { handle(ctx, conn) })
		case <-ctx.Done():
			wg.Wait()
			return err
		}
	}
}

// run accepts until ctx ends or the listener is closed, and returns when all handshakes have ended.
func (g *gate) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = g.listener.Close() })
	defer stop()
	for {
		conn, err := g.listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			g.log.Error(err, "Cannot accept")
			select {
			case <-time.After(acceptRetry):
			case <-ctx.Done():
			}
			continue
		}
		g.enter(conn)
		wg.Go(func() { g.handshake(ctx, conn) })
	}
}

func (g *gate) enter(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) >= maxHandshakes {
		_ = g.pending[0].Close()
		g.pending = slices.Delete(g.pending, 0, 1)
		g.dropped()
	}
	g.pending = append(g.pending, conn)
}

func (g *gate) leave(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.pending, conn); i >= 0 {
		g.pending = slices.Delete(g.pending, i, i+1)
	}
}

func (g *gate) handshake(ctx context.Context, raw net.Conn) {
	conn := tls.Server(raw, g.config)
	limited, cancel := context.WithTimeout(ctx, handshakeTimeout)
	err := conn.HandshakeContext(limited)
	cancel()
	g.leave(raw)
	if err != nil {
		// Load balancers probe ports by connecting and closing, so this is no news.
		g.log.V(1).Info("Handshake failed", "peer", raw.RemoteAddr().String(), "reason", err.Error())
		_ = raw.Close()
		return
	}
	select {
	case g.ready <- conn:
	case <-ctx.Done():
		_ = raw.Close()
	}
}
