package networkagent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// routeProtocol marks our routes, so that stale ones are found after a restart. Any number will do that neither the
	// kernel nor the usual routing daemons (up to 192) use.
	routeProtocol = 199
	tableName     = "hortus-network"
	confFile      = "10-hortus.conflist"
)

// System changes the machine the process runs on, in the network namespace of the process.
type System struct {
	ConfDir string       // Directory of CNI configurations.
	AllPods netip.Prefix // Pod network of the whole cluster.
}

// Prepare sets up what does not depend on Nodes: forwarding, and the masquerading of traffic that leaves the pod
// network.
func (s *System) Prepare() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0o644); err != nil {
		return fmt.Errorf("set sysctl: %w", err)
	}
	filterBridges()
	return s.masquerade()
}

// filterBridges lets packets between two pods of one bridge pass the hooks of IP. Without it replies between them
// bypass the translation of Service addresses, and network policies do not apply to them. The file exists only where
// the module br_netfilter is loaded, and there 1 is the default; a machine whose pods have no bridge does not need it.
func filterBridges() {
	_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1\n"), 0o644)
}

// masquerade replaces our table by one with the rule: from pods to anything but pods.
func (s *System) masquerade() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("connect to nftables: %w", err)
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
	conn.AddTable(table)
	conn.DelTable(table)
	table = conn.AddTable(table)
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	exprs := append(matchAddress(offsetSource, s.AllPods, expr.CmpOpEq),
		matchAddress(offsetDestination, s.AllPods, expr.CmpOpNeq)...)
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(exprs, &expr.Masq{})})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write nftables rules: %w", err)
	}
	return nil
}

// Offsets of the addresses in the IPv4 header (RFC 791, section 3.1).
const (
	offsetSource      = 12
	offsetDestination = 16
)

func matchAddress(offset uint32, prefix netip.Prefix, op expr.CmpOp) []expr.Any {
	mask := net.CIDRMask(prefix.Bits(), 32)
	addr := prefix.Masked().Addr().As4()
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: 1, Data: addr[:]},
	}
}

// Apply brings CNI configuration and routes in line with the state. All routes are tried even if some fail.
func (s *System) Apply(state State) error {
	var errs []error
	if state.Pods.IsValid() {
		errs = append(errs, s.writeConfig(CNIConfig(state.Pods)))
	}
	return errors.Join(append(errs, s.applyRoutes(state.Routes))...)
}

// writeConfig replaces the file in one step: the container runtime reads it whenever the directory changes.
func (s *System) writeConfig(data []byte) error {
	path := filepath.Join(s.ConfDir, confFile)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	temp := path + ".tmp" // The container runtime ignores this suffix.
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	return nil
}

func (s *System) applyRoutes(want []Route) error {
	have, err := netlink.RouteListFiltered(netlink.FAMILY_V4,
		&netlink.Route{Protocol: routeProtocol, Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	current := map[string]string{}
	for _, r := range have {
		if r.Dst != nil {
			current[r.Dst.String()] = r.Gw.String()
		}
	}
	var errs []error
	keep := map[string]bool{}
	for _, r := range want {
		keep[r.Destination.String()] = true
		if current[r.Destination.String()] == r.Gateway.String() {
			continue
		}
		if err := netlink.RouteReplace(kernelRoute(r)); err != nil {
			errs = append(errs, fmt.Errorf("route to %s via %s: %w", r.Destination, r.Gateway, err))
		}
	}
	for i := range have {
		if have[i].Dst == nil || keep[have[i].Dst.String()] {
			continue
		}
		if err := netlink.RouteDel(&have[i]); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("delete route to %s: %w", have[i].Dst, err))
		}
	}
	return errors.Join(errs...)
}

func kernelRoute(r Route) *netlink.Route {
	return &netlink.Route{
		Dst:      &net.IPNet{IP: r.Destination.Addr().AsSlice(), Mask: net.CIDRMask(r.Destination.Bits(), 32)},
		Gw:       r.Gateway.AsSlice(),
		Protocol: routeProtocol,
	}
}
