package gardenlet

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

// probes answers /healthz and /readyz. Those of a manager are served only after its start, and the kubelet would
// restart a gardenlet that waits for its API servers before.
type probes struct {
	// ready makes /readyz succeed: the controllers run, or wait to be elected.
	ready  atomic.Bool
	server *http.Server
}

// serveProbes serves until close is called.
func serveProbes(ctx context.Context, address string) (*probes, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for health probes: %w", err)
	}
	p := &probes{}
	p.server = &http.Server{Handler: p.handler(), ReadHeaderTimeout: probeTimeout}
	go func() {
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to serve health probes")
		}
	}()
	return p, nil
}

func (p *probes) handler() http.Handler {
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

func (p *probes) close() { _ = p.server.Close() } // The process ends.
