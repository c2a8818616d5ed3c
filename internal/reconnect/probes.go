package reconnect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// probeTimeout bounds the header of a probe's request, which the kubelet sends at once.
const probeTimeout = 5 * time.Second

// Probes answers /healthz and /readyz. Those of a manager are served only after its start, and the kubelet would
// restart a process that waits for its API servers before.
type Probes struct {
	ready  atomic.Bool
	server *http.Server
}

// ServeProbes serves until Close is called.
func ServeProbes(ctx context.Context, address string) (*Probes, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for health probes: %w", err)
	}
	p := &Probes{}
	p.server = &http.Server{Handler: p.handler(), ReadHeaderTimeout: probeTimeout}
	go func() {
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to serve health probes")
		}
	}()
	return p, nil
}

// Ready makes /readyz succeed: the controllers run, or wait to be elected.
func (p *Probes) Ready() { p.ready.Store(true) }

// Close ends the server, as the process is about to.
func (p *Probes) Close() { _ = p.server.Close() }

func (p *Probes) handler() http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter) { _, _ = io.WriteString(w, "ok") } // A client that is gone is not a problem.
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { ok(w) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !p.ready.Load() {
			http.Error(w, "waiting", http.StatusServiceUnavailable)
			return
		}
		ok(w)
	})
	return mux
}
