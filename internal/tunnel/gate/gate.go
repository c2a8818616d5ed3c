// Package gate accepts connections and bounds those that have not identified themselves or their destination yet.
package gate

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// acceptRetry is the pause after a failed accept, usually for want of descriptors.
const acceptRetry = 50 * time.Millisecond

// Gate keeps at most Max connections that have not passed: the oldest is closed for a new one, so that connections that
// only stay open do not keep others out.
type Gate struct {
	Max int
	// GaveWay is called for each connection that is closed for a newer one.
	GaveWay func()
	Log     logr.Logger

	mu      sync.Mutex
	waiting []net.Conn // The oldest first.
}

// Serve accepts connections until ctx ends or l is closed, and runs handle for each in a goroutine of its own. It
// closes l and returns when all of them have returned. handle calls Pass and closes the connection.
func (g *Gate) Serve(ctx context.Context, l net.Listener, handle func(net.Conn)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			g.Log.Error(err, "Failed to accept")
			select {
			case <-time.After(acceptRetry):
			case <-ctx.Done():
			}
			continue
		}
		g.enter(conn)
		wg.Go(func() { handle(conn) })
	}
}

func (g *Gate) enter(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) >= g.Max {
		_ = g.waiting[0].Close()
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.GaveWay()
	}
	g.waiting = append(g.waiting, conn)
}

// Pass lets a connection through: it is no longer closed for others.
func (g *Gate) Pass(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, conn); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
}
