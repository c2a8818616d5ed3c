package tunnel

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/signal"
	"slices"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/egress"
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
	var o serverOptions
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Accept tunnel clients and the API server's CONNECT requests",
		Args:  cobra.NoArgs,
	}
	files := certFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.clients, "client-address", fmt.Sprintf(":%d", ClientPort),
		"address for tunnel clients; empty for a Shoot without workers, whose requests all go to the outside")
	f.StringVar(&o.proxy, "proxy-address", fmt.Sprintf(":%d", ProxyPort),
		`address for the API server's egress selector "cluster"`)
	f.StringVar(&o.egress, "egress-address", "",
		`address for the API server's egress selector "controlplane"; empty is off`)
	web := endpointFlags(f)
	o.networks.addFlags(f)
	f.StringSliceVar(&o.deniedDomains, "denied-domains", nil,
		"domains that are not outside, with all below them, besides svc, cluster.local and localhost")
	f.StringSliceVar(&o.exempt.fixed, "exempt-targets", nil,
		"host:port of servers alongside this one that egress may reach although they are not outside")
	f.StringVar(&o.exempt.file, "exempt-targets-file", "",
		"file with more of them, one per line, which is read for each connection; it may be missing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		if err := files.Load(); err != nil {
			return err
		}
		inside, outside, err := o.rules()
		if err != nil {
			return err
		}
		listeners, err := o.listen()
		if err != nil {
			return err
		}
		registry := prometheus.NewRegistry()
		s := &Server{Certs: files, Log: klog.Background().WithName("tunnel-server"), Registry: registry,
			Inside: inside, Egress: &egress.Dialer{Rules: outside, Exempt: o.exempt.has}}
		connected := func() bool { return listeners.Clients == nil || s.Connected() > 0 }
		return web.serve(ctx, registry, connected, func(ctx context.Context) error { return s.Serve(ctx, listeners) })
	}
	return cmd
}

// serverOptions are the flags of the server.
type serverOptions struct {
	clients, proxy, egress string
	networks               networks
	deniedDomains          []string
	exempt                 exemptions
}

// networks are the flags for the allowed destinations of requests.
type networks struct{ own, denied []string }

func (n *networks) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&n.own, "own-networks", nil, "CIDRs of the Shoot's pods, services and nodes")
	f.StringSliceVar(&n.denied, "denied-networks", nil, "CIDRs that may not be reached, unless they are the Shoot's own")
}

func (n *networks) parse() (own, denied []netip.Prefix, err error) {
	own, err = parseNetworks("own-networks", n.own)
	if err != nil {
		return nil, nil, err
	}
	denied, err = parseNetworks("denied-networks", n.denied)
	return own, denied, err
}

func (o *serverOptions) rules() (inside, outside *egress.Rules, err error) {
	own, denied, err := o.networks.parse()
	if err != nil {
		return nil, nil, err
	}
	// Outside of the Shoot, addresses of its own networks belong to others.
	outside, err = egress.Outside(slices.Concat(own, denied), o.deniedDomains)
	if err != nil {
		return nil, nil, fmt.Errorf("--denied-domains: %w", err)
	}
	return egress.Inside(own, denied), outside, nil
}

func (o *serverOptions) listen() (l Listeners, err error) {
	for _, p := range []struct {
		listener *net.Listener
		address  string
		what     string
	}{{&l.Clients, o.clients, "clients"}, {&l.Proxy, o.proxy, "the API server"}, {&l.Egress, o.egress, "egress"}} {
		if p.address == "" && p.listener != &l.Proxy {
			continue
		}
		if *p.listener, err = net.Listen("tcp", p.address); err != nil {
			return l, fmt.Errorf("listen for %s: %w", p.what, err)
		}
	}
	return l, nil
}

func parseNetworks(flag string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, n := range list {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func newClientCommand() *cobra.Command {
	c := &Client{}
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
	web := endpointFlags(cmd.Flags())
	for _, name := range []string{"gateway", "destination"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // The flag is defined above.
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		if err := c.Certs.Load(); err != nil {
			return err
		}
		registry := prometheus.NewRegistry()
		c.Clock, c.Log, c.Registry = clock.RealClock{}, klog.Background().WithName("tunnel-client"), registry
		return web.serve(ctx, registry, c.Connected, func(ctx context.Context) error {
			c.Run(ctx)
			return nil
		})
	}
	return cmd
}
