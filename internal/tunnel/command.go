package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/signal"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/tunnel/certs"
)

// NewCommand returns `tunnel` with its two ends as subcommands.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tunnel",
		Short: "Connect a Shoot's API server to its nodes and pods",
	}
	cmd.AddCommand(newServerCommand(), newClientCommand())
	return cmd
}

// certFlags adds the flags for the mutual TLS between client, server and API server.
func certFlags(cmd *cobra.Command) *certs.Files {
	f := &certs.Files{}
	cmd.Flags().StringVar(&f.CA, "ca-file", "/etc/tunnel/ca.crt", "PEM bundle of the VPN CA")
	cmd.Flags().StringVar(&f.Cert, "cert-file", "/etc/tunnel/tls.crt", "PEM certificate of this end")
	cmd.Flags().StringVar(&f.Key, "key-file", "/etc/tunnel/tls.key", "PEM key of this end")
	return f
}

func newServerCommand() *cobra.Command {
	var clientAddr, proxyAddr, healthAddr string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Accept tunnel clients and the API server's CONNECT requests",
		Args:  cobra.NoArgs,
	}
	files := certFlags(cmd)
	cmd.Flags().StringVar(&clientAddr, "client-address", fmt.Sprintf(":%d", ClientPort), "address for tunnel clients")
	cmd.Flags().StringVar(&proxyAddr, "proxy-address", fmt.Sprintf(":%d", ProxyPort), "address for the API server")
	cmd.Flags().StringVar(&healthAddr, "health-address", ":8080", "address for /healthz, /readyz, /connectedz and /metrics")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		if err := files.Load(); err != nil {
			return err
		}
		clients, err := net.Listen("tcp", clientAddr)
		if err != nil {
			return fmt.Errorf("listen for clients: %w", err)
		}
		proxy, err := net.Listen("tcp", proxyAddr)
		if err != nil {
			return fmt.Errorf("listen for the API server: %w", err)
		}
		registry := prometheus.NewRegistry()
		s := &Server{Certs: files, Log: klog.Background().WithName("tunnel-server"), Registry: registry}
		return withHealth(ctx, healthAddr, registry, func() bool { return s.Connected() > 0 },
			func(ctx context.Context) error { return s.Serve(ctx, clients, proxy) })
	}
	return cmd
}

func newClientCommand() *cobra.Command {
	c := &Client{}
	var healthAddr string
	var networks []string
	cmd := &cobra.Command{
		Use:   "client",
		Short: "Keep a session to the tunnel server and dial targets for it",
		Args:  cobra.NoArgs,
	}
	c.Certs = certFlags(cmd)
	cmd.Flags().StringVar(&c.Gateway, "gateway", "", "host:port of the seed's gateway, resolved for every attempt")
	cmd.Flags().StringArrayVar(&c.Destinations, "destination", nil,
		"value of the "+DestinationHeader+" header, for example "+Destination("<namespace>")+"; may be repeated")
	cmd.Flags().StringVar(&c.ServerName, "server-name", ServiceName, "name in the server's certificate")
	cmd.Flags().StringSliceVar(&networks, "allowed-networks", nil, "CIDRs that may be dialled; empty allows everything")
	cmd.Flags().StringVar(&healthAddr, "health-address", ":8080", "address for /healthz, /readyz, /connectedz and /metrics")
	for _, name := range []string{"gateway", "destination"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // The flag is defined above.
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		for _, n := range networks {
			p, err := netip.ParsePrefix(n)
			if err != nil {
				return fmt.Errorf("flag --allowed-networks: %w", err)
			}
			c.AllowedNetworks = append(c.AllowedNetworks, p.Masked())
		}
		if err := c.Certs.Load(); err != nil {
			return err
		}
		registry := prometheus.NewRegistry()
		c.Clock, c.Log, c.Registry = clock.RealClock{}, klog.Background().WithName("tunnel-client"), registry
		return withHealth(ctx, healthAddr, registry, c.Connected, func(ctx context.Context) error {
			c.Run(ctx)
			return nil
		})
	}
	return cmd
}

// withHealth runs run and serves health and metrics beside it. /readyz does not depend on the peer: a server that
// became unready without clients would vanish from its Service and could never be reached by one.
func withHealth(ctx context.Context, addr string, g prometheus.Gatherer, connected func() bool, run func(context.Context) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	web := &http.Server{Handler: healthHandler(g, connected), ReadHeaderTimeout: handshakeTimeout}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var webErr error
	wg.Go(func() {
		if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			webErr = fmt.Errorf("serve health checks: %w", err)
			cancel()
		}
	})
	err = run(ctx)
	_ = web.Close()
	wg.Wait()
	return errors.Join(err, webErr)
}

func healthHandler(g prometheus.Gatherer, connected func() bool) http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }
	mux.HandleFunc("/healthz", ok)
	mux.HandleFunc("/readyz", ok)
	mux.HandleFunc("/connectedz", func(w http.ResponseWriter, r *http.Request) {
		if !connected() {
			http.Error(w, "no session", http.StatusServiceUnavailable)
			return
		}
		ok(w, r)
	})
	mux.Handle("/metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{}))
	return mux
}
