package apiserverproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/pires/go-proxyproto"

	"hortus.dev/hortus/internal/tunnel/relay"
)

const (
	// dialTimeout bounds connecting to the gateway; clients retry by themselves.
	dialTimeout = 10 * time.Second
	// acceptPause keeps the loop from spinning while the process has no file descriptors left.
	acceptPause = 100 * time.Millisecond
)

// Proxy forwards connections to the gateway.
type Proxy struct {
	// Gateway is host:port; the name is resolved for every connection, so that the node follows a control plane that
	// moves to another seed.
	Gateway string
	Log     logr.Logger
	// Dial opens TCP connections; nil is net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Serve accepts connections until ctx ends, then closes all of them.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		<-ctx.Done()
		_ = l.Close()
	})
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			p.Log.Error(err, "Failed to accept a connection")
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		wg.Go(func() {
			if err := p.pass(ctx, conn); err != nil {
				p.Log.V(1).Info("Connection was not passed on", "reason", err.Error(), "client", conn.RemoteAddr().String())
			}
		})
	}
}

// pass forwards a connection of a client to the gateway until both sides are done.
func (p *Proxy) pass(ctx context.Context, client net.Conn) error {
	defer client.Close()
	dial := p.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	gateway, err := dial(dialCtx, "tcp", p.Gateway)
	if err != nil {
		return fmt.Errorf("dial gateway %s: %w", p.Gateway, err)
	}
	defer gateway.Close()
	if _, err := proxyproto.HeaderProxyFromAddrs(2, client.RemoteAddr(), client.LocalAddr()).WriteTo(gateway); err != nil {
		return fmt.Errorf("write PROXY header: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = client.Close(); _ = gateway.Close() })
	defer stop()
	relay.Both(client, gateway)
	return nil
}
