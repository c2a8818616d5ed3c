package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"hortus.dev/hortus/internal/timeslice"
)

// options are the flags.
type options struct {
	kubeconfig                      string
	gateway                         string
	tlsAddr, connectAddr, proxyAddr string
	healthAddr, metricsAddr         string
	delay, drain                    time.Duration
}

// NewCommand returns `gateway`.
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Route connections from outside a seed to its control planes",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the seed; empty is in-cluster")
	f.StringVar(&o.gateway, "gateway", "", "namespace/name of the Gateway whose TLSRoutes are served; empty serves all")
	f.StringVar(&o.tlsAddr, "tls-address", ":443", "address for TLS, routed by SNI; empty turns it off")
	f.StringVar(&o.connectAddr, "connect-address", ":8132",
		"address for HTTP CONNECT, routed by header; empty turns it off")
	f.StringVar(&o.proxyAddr, "proxy-address", ":8443",
		"address for PROXY protocol v2, routed by destination; empty turns it off")
	f.StringVar(&o.healthAddr, "health-address", ":8081", "address for /healthz and /readyz")
	f.StringVar(&o.metricsAddr, "metrics-address", "127.0.0.1:8080", "address for /metrics; 0 turns it off")
	f.DurationVar(&o.delay, "shutdown-delay", 5*time.Second,
		"how long new connections are accepted on shutdown, while the Service stops sending them")
	f.DurationVar(&o.drain, "drain", 10*time.Second, "connection drain period on shutdown, after --shutdown-delay")
	return cmd
}

// NewScheme returns the types the gateway watches.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(corev1.AddToScheme(scheme), gatewayv1.Install(scheme))
}

func run(ctx context.Context, o options) error {
	log := klog.Background().WithName("gateway")
	ctrl.SetLogger(log)
	if err := timeslice.Short(); err != nil {
		log.Error(err, "Connections may wait for busy control planes of the same node")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := loadConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	parent, err := parseGateway(o.gateway)
	if err != nil {
		return err
	}
	scheme, err := NewScheme()
	if err != nil {
		return fmt.Errorf("build scheme: %w", err)
	}
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme:                 scheme,
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		HealthProbeBindAddress: o.healthAddr,
		Metrics:                metricsserver.Options{BindAddress: o.metricsAddr},
	})
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}
	server := NewServer(log, ctrlmetrics.Registry)
	server.Delay, server.Drain = o.delay, o.drain
	var built atomic.Bool
	r := &Reconciler{Seed: mgr.GetClient(), Gateway: parent, Server: server, Built: func() { built.Store(true) }}
	if err := r.AddToManager(mgr); err != nil {
		return err
	}
	ready := func(*http.Request) error {
		if ctx.Err() != nil {
			return errors.New("shutting down")
		}
		if !built.Load() {
			return errors.New("no routing table yet")
		}
		return nil
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("table", ready)); err != nil {
		return fmt.Errorf("add health checks: %w", err)
	}
	listeners, err := listen(o)
	if err != nil {
		return err
	}
	return runBoth(ctx, mgr.Start, func(ctx context.Context) error { return server.Serve(ctx, listeners) })
}

// runBoth runs the server until ctx ends or the manager fails. The manager, which answers health checks, ends after the
// server.
func runBoth(ctx context.Context, manager, server func(context.Context) error) error {
	managing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	var managed error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		managed = manager(managing)
	})
	served := server(serving)
	end()
	wg.Wait()
	return errors.Join(managed, served)
}

func listen(o options) (Listeners, error) {
	var l Listeners
	for _, p := range []struct {
		address  string
		listener *net.Listener
	}{{o.tlsAddr, &l.TLS}, {o.connectAddr, &l.Connect}, {o.proxyAddr, &l.Proxy}} {
		if p.address == "" {
			continue
		}
		var err error
		if *p.listener, err = net.Listen("tcp", p.address); err != nil {
			return Listeners{}, fmt.Errorf("listen on %s: %w", p.address, err)
		}
	}
	return l, nil
}

func parseGateway(s string) (types.NamespacedName, error) {
	if s == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || namespace == "" || name == "" {
		return types.NamespacedName{}, fmt.Errorf("--gateway: invalid value: %q (namespace/name)", s)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func loadConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	return config, nil
}
