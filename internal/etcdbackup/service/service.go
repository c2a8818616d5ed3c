package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/tunnel/certs"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = time.Minute
	// stopTimeout bounds the wait, on shutdown, for requests that wait for a snapshot.
	stopTimeout = 10 * time.Second
)

// Taker takes the snapshots and has the status that the service serves.
type Taker interface {
	Status() etcdbackup.Status
	Snapshot(context.Context, chain.Kind) (etcdbackup.Snapshot, error)
}

// Owner receives reports about the owner of the control plane.
type Owner interface {
	// Confirm is called with the epoch that the garden has.
	Confirm(epoch int64) error
	// Activate ends a standby.
	Activate(epoch int64, holder string) error
}

// maxBody bounds the body of a request, in bytes; it is far more than any request has.
const maxBody = 64 << 10

// Handler returns the routes of the service. Without an owner it has no routes for confirmation and activation.
func Handler(t Taker, g prometheus.Gatherer, o Owner) http.Handler {
	mux := http.NewServeMux()
	if o != nil {
		mux.HandleFunc("PUT /v1/confirmation", func(w http.ResponseWriter, r *http.Request) {
			var c etcdbackup.Confirmation
			act(w, r, &c, func() error { return o.Confirm(c.Epoch) }, t)
		})
		mux.HandleFunc("POST /v1/activation", func(w http.ResponseWriter, r *http.Request) {
			var a etcdbackup.Activation
			act(w, r, &a, func() error { return o.Activate(a.Epoch, a.Holder) }, t)
		})
	}
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, t.Status()) })
	mux.HandleFunc("POST /v1/snapshot", func(w http.ResponseWriter, r *http.Request) {
		kind := chain.Kind(r.URL.Query().Get("kind"))
		if kind != chain.Full && kind != chain.Delta {
			http.Error(w, fmt.Sprintf("kind: invalid value: %q (full, delta)", kind), http.StatusBadRequest)
			return
		}
		s, err := t.Snapshot(r.Context(), kind)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer(w, s)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", healthz)
	return mux
}

// act decodes a request, acts on it and answers with the status.
func act(w http.ResponseWriter, r *http.Request, into any, do func() error, t Taker) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into); err != nil {
		http.Error(w, fmt.Sprintf("body: %v", err), http.StatusBadRequest)
		return
	}
	if err := do(); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	answer(w, t.Status())
}

func healthz(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// Probes are the checks behind a kubelet's probes. Each may be nil: then the process is always healthy, or ready.
type Probes struct{ Live, Ready func(context.Context) error }

// Handler returns the routes that are open to every client: they return a status and one word, nothing else.
func (p Probes) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]func(context.Context) error{"/healthz": p.Live, "/readyz": p.Ready} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if check != nil && check(r.Context()) != nil {
				http.Error(w, "unavailable", http.StatusServiceUnavailable)
				return
			}
			healthz(w, r)
		})
	}
	return mux
}

// Serve serves the routes on address with the certificates, and only the probes, in plain text, on health, until ctx
// ends.
func Serve(ctx context.Context, address, health string, files *certs.Files, routes http.Handler, probed Probes) error {
	secure, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen-address: %w", err)
	}
	plain, err := net.Listen("tcp", health)
	if err != nil {
		return errors.Join(fmt.Errorf("--health-address: %w", err), secure.Close())
	}
	quiet := log.New(io.Discard, "", 0) // Port scans and probes without a certificate are not news.
	web := &http.Server{Handler: routes, TLSConfig: files.Server(), ReadHeaderTimeout: headerTimeout,
		IdleTimeout: idleTimeout, ErrorLog: quiet}
	probes := &http.Server{
		Handler: probed.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, ErrorLog: quiet,
	}
	ended := make(chan error, 2)
	go func() { ended <- web.ServeTLS(secure, "", "") }()
	go func() { ended <- probes.Serve(plain) }()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("serve: %w", err), web.Close(), probes.Close())
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(web.Shutdown(stop), probes.Close())
}
