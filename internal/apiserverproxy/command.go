package apiserverproxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"
	"k8s.io/klog/v2"
)

// apiServerPort is the port of the `kubernetes` Service's endpoints.
const apiServerPort = 443

// NewCommand returns `apiserver-proxy`.
func NewCommand() *cobra.Command {
	var address, gateway, health, device string
	cmd := &cobra.Command{
		Use:   "apiserver-proxy",
		Short: "Forward a node's connections to its API server through the seed's gateway",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&address, "address", "", "IP that the API server advertises")
	cmd.Flags().StringVar(&gateway, "gateway", "", "host:port of the gateway's PROXY protocol port")
	cmd.Flags().StringVar(&health, "health-address", ":16910", "address for /healthz and /readyz")
	cmd.Flags().StringVar(&device, "device", "lo", "network interface to add the address to; empty if it has it already")
	for _, name := range []string{"address", "gateway"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // The flag is defined above.
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		ip, err := netip.ParseAddr(address)
		if err != nil {
			return fmt.Errorf("--address: %w", err)
		}
		if device != "" {
			if err := addAddress(device, ip); err != nil {
				return err
			}
		}
		l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(apiServerPort)))
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		healthListener, err := net.Listen("tcp", health)
		if err != nil {
			return fmt.Errorf("listen for health checks: %w", err)
		}
		web := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: healthHandler()}
		var wg sync.WaitGroup
		var webErr error
		wg.Go(func() {
			if err := web.Serve(healthListener); !errors.Is(err, http.ErrServerClosed) {
				webErr = fmt.Errorf("serve health checks: %w", err)
				stop()
			}
		})
		p := &Proxy{Gateway: gateway, Log: klog.Background().WithName("apiserver-proxy")}
		err = p.Serve(ctx, l)
		_ = web.Close()
		wg.Wait()
		return errors.Join(err, webErr)
	}
	return cmd
}

func healthHandler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	}
	return mux
}

// addAddress puts the address on the interface. It stays when the process ends: without it connections would leave the
// node for a foreign network instead of failing.
func addAddress(device string, ip netip.Addr) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find network interface %q: %w", device, err)
	}
	err = netlink.AddrReplace(link,
		&netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}})
	if err != nil {
		return fmt.Errorf("add address %s to network interface %q: %w", ip, device, err)
	}
	return nil
}
