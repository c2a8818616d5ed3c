package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hortus.dev/hortus/internal/garden"
)

// landscapeNetwork is the range of a landscape's API servers: addresses that are reserved for benchmarks and routed
// nowhere (RFC 2544).
var landscapeNetwork = netip.MustParsePrefix("198.18.0.0/15")

// userAgent is not one of those that get indented JSON, which has twice the size.
const userAgent = "hortus-bench"

// Target is the server under test.
type Target struct {
	// Config reaches the garden: namespaces, Secrets, and the API under test unless Direct is set.
	Config *rest.Config
	// Measured reaches the API under test. It is Config, or the server itself when it is measured without the
	// kube-apiserver in front of it.
	Measured *rest.Config
}

type targetFlags struct {
	access   garden.Access
	direct   string
	directCA string
	yes      bool
}

// target reads the kubeconfig and refuses servers that may be in use.
func (f *targetFlags) target(ctx context.Context) (*Target, error) {
	config, err := f.access.RESTConfig()
	if err != nil {
		return nil, err
	}
	t := &Target{Config: config, Measured: config}
	if f.direct != "" {
		t.Measured = rest.CopyConfig(config)
		t.Measured.Host = f.direct
		t.Measured.TLSClientConfig.ServerName = ""
		if f.directCA != "" {
			t.Measured.TLSClientConfig.CAFile, t.Measured.TLSClientConfig.CAData = f.directCA, nil
		}
	}
	for _, host := range []string{t.Config.Host, t.Measured.Host} {
		if err := harmless(ctx, host, net.DefaultResolver.LookupNetIP); err != nil && !f.yes {
			return nil, fmt.Errorf("%w; with --yes it is loaded all the same", err)
		}
	}
	for _, c := range []*rest.Config{t.Config, t.Measured} {
		c.QPS = -1
		c.UserAgent = userAgent
		// Lists are measured without compression.
		c.DisableCompression = true
	}
	return t, nil
}

// harmless returns an error if a server must not be loaded without confirmation, since it is neither on this machine
// nor in its landscape.
func harmless(
	ctx context.Context, server string, lookup func(context.Context, string, string) ([]netip.Addr, error),
) error {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Hostname() == "" {
		return fmt.Errorf("invalid server URL: %q", server)
	}
	addresses := []netip.Addr{}
	if address, err := netip.ParseAddr(parsed.Hostname()); err == nil {
		addresses = append(addresses, address)
	} else if addresses, err = lookup(ctx, "ip", parsed.Hostname()); err != nil {
		return fmt.Errorf("look up server %q: %w", server, err)
	}
	for _, address := range addresses {
		if address = address.Unmap(); !address.IsLoopback() && !landscapeNetwork.Contains(address) {
			return fmt.Errorf("server %s (%s) is neither on this machine nor in its landscape", server, address)
		}
	}
	if len(addresses) == 0 {
		return fmt.Errorf("server %q has no address", server)
	}
	return nil
}

// loadKubeconfig reads a kubeconfig of the landscape.
func loadKubeconfig(path string) (*rest.Config, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no kubeconfig %s: bring up a landscape with 'hortus up'", path)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	config.QPS = -1
	return config, nil
}
