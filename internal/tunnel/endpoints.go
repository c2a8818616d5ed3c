package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
)

// endpoints are the addresses for health and metrics. The health address is for the kubelet, and so open to all clients
// that reach the pod. Metrics reveal details of the Shoot, and are served only inside the pod: `kubectl port-forward`
// reads them.
type endpoints struct{ health, metrics string }

func endpointFlags(f *pflag.FlagSet) *endpoints {
	e := &endpoints{}
	f.StringVar(&e.health, "health-address", ":8080", "address for /healthz, /readyz and /connectedz")
	f.StringVar(&e.metrics, "metrics-address", "127.0.0.1:8081", "address for /metrics")
	return e
}

// serve runs run and serves health and metrics while it runs.
func (e *endpoints) serve(ctx context.Context, g prometheus.Gatherer, connected func() bool,
	run func(context.Context) error) error {
	health, err := net.Listen("tcp", e.health)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	metrics, err := net.Listen("tcp", e.metrics)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for metrics: %w", err), health.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	webErrs := make([]error, 2)
	var servers []*http.Server
	for i, s := range []struct {
		what     string
		listener net.Listener
		handler  http.Handler
	}{{"health checks", health, healthHandler(connected)}, {"metrics", metrics, metricsHandler(g)}} {
		web := &http.Server{Handler: s.handler, ReadHeaderTimeout: handshakeTimeout}
		servers = append(servers, web)
		wg.Go(func() {
			if err := web.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
				webErrs[i] = fmt.Errorf("serve %s: %w", s.what, err)
				cancel()
			}
		})
	}
	err = run(ctx)
	for _, web := range servers {
		_ = web.Close()
	}
	wg.Wait()
	return errors.Join(err, errors.Join(webErrs...))
}

// healthHandler answers with a status and one word. /readyz does not depend on the peer: a server that became unready
// without clients would vanish from its Service and could never be reached by one.
func healthHandler(connected func() bool) http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }
	mux.HandleFunc("/healthz", ok)
	mux.HandleFunc("/readyz", ok)
	mux.HandleFunc("/connectedz", func(w http.ResponseWriter, r *http.Request) {
		if !connected() {
			http.Error(w, "disconnected", http.StatusServiceUnavailable)
			return
		}
		ok(w, r)
	})
	return mux
}

func metricsHandler(g prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{}))
	return mux
}
