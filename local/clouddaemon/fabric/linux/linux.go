//go:build linux

// Package linux makes the cloud's networks from network namespaces, bridges and veth pairs.
//
// The public network is the bridge hortus-public in the host's namespace. A network is a namespace of its own with a
// bridge (the gateway), and an uplink to the public bridge through which traffic leaves, masqueraded. An instance is a
// namespace with eth0 in the bridge of its network. Everything has a name made from an ID, so what belongs to the cloud
// can be found without records; nothing but the public bridge and the host ends of the uplinks is in the host's
// namespace.
package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"hortus.dev/hortus/local/clouddaemon/fabric"
)

const (
	// PublicBridge is the name of the public network's bridge on the host.
	PublicBridge = "hortus-public"
	// namespaceDir is the directory of ip-netns, so that people can inspect namespaces with the usual tools.
	namespaceDir = "/run/netns"
	// namespacePrefix marks the namespaces of the cloud.
	namespacePrefix = "hortus-"
	networkPrefix   = "net-"
	instancePrefix  = "i-"

	bridgeName   = "br0"
	uplinkName   = "uplink"
	instanceName = "eth0"
	// hostUplinkPrefix and portPrefix precede the ID without its prefix: 12 characters, of 15 allowed.
	hostUplinkPrefix = "hu"
	portPrefix       = "hp"
)

// Fabric makes networks on this host. It needs root.
type Fabric struct {
	// Public is the host's address on the public network, with the length of its prefix.
	Public netip.Prefix

	mu sync.Mutex // Serializes changes; they take milliseconds.
}

var _ fabric.Fabric = (*Fabric)(nil)

// Start makes the public bridge and sets what the kernel needs.
func (f *Fabric) Start(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	prepareKernel()
	if err := os.MkdirAll(namespaceDir, 0o755); err != nil {
		return fmt.Errorf("make directory of namespaces: %w", err)
	}
	host, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer host.Close()
	if _, err := ensureBridge(host, PublicBridge, f.Public); err != nil {
		return fmt.Errorf("make public network: %w", err)
	}
	return nil
}

// EnsureNetwork makes the namespace of a network with its bridge and uplink.
func (f *Fabric) EnsureNetwork(_ context.Context, n fabric.Network) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ns, err := ensureNamespace(n.ID)
	if err != nil {
		return err
	}
	defer ns.Close()
	uplink, err := openEnd(ns, uplinkName)
	if err != nil {
		return err
	}
	defer uplink.handle.Close()
	if err := setUp(uplink.handle, "lo"); err != nil {
		return err
	}
	if _, err := ensureBridge(uplink.handle, bridgeName, n.Gateway); err != nil {
		return fmt.Errorf("make gateway of network %q: %w", n.ID, err)
	}
	if err := f.ensureUplink(uplink, n); err != nil {
		return fmt.Errorf("connect network %q to the public network: %w", n.ID, err)
	}
	if err := inNamespace(ns, prepareNetworkNamespace); err != nil {
		return fmt.Errorf("set up forwarding in network %q: %w", n.ID, err)
	}
	if err := masquerade(ns); err != nil {
		return fmt.Errorf("set up masquerading in network %q: %w", n.ID, err)
	}
	return nil
}

// ensureUplink connects a network to the public bridge and routes everything else there.
func (f *Fabric) ensureUplink(uplink end, n fabric.Network) error {
	own, err := netns.Get()
	if err != nil {
		return fmt.Errorf("find own network namespace: %w", err)
	}
	defer own.Close()
	port, err := openEnd(own, hostUplinkPrefix+strings.TrimPrefix(n.ID, networkPrefix))
	if err != nil {
		return err
	}
	defer port.handle.Close()
	public, err := port.handle.LinkByName(PublicBridge)
	if err != nil {
		return fmt.Errorf("find %s: %w", PublicBridge, err)
	}
	link, err := ensureVeth(uplink, port, n.Uplink, public.Attrs().Index)
	if err != nil {
		return err
	}
	address := netip.PrefixFrom(n.Uplink, f.Public.Bits())
	if err := uplink.handle.AddrReplace(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
		return fmt.Errorf("set address %s: %w", address, err)
	}
	return defaultRoute(uplink.handle, link, f.Public.Addr())
}

// RemoveNetwork removes a network with everything in it.
func (f *Fabric) RemoveNetwork(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return dissolve(id, uplinkName)
}

// Attach makes a namespace with eth0 in the bridge of the network.
func (f *Fabric) Attach(_ context.Context, p fabric.Port) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.detach(p.InstanceID); err != nil {
		return "", err
	}
	network, err := openNamespace(p.NetworkID)
	if err != nil {
		return "", err
	}
	defer network.Close()
	port, err := openEnd(network, portPrefix+strings.TrimPrefix(p.InstanceID, instancePrefix))
	if err != nil {
		return "", err
	}
	defer port.handle.Close()
	bridge, err := port.handle.LinkByName(bridgeName)
	if err != nil {
		return "", fmt.Errorf("find bridge of network %q: %w", p.NetworkID, err)
	}
	ns, err := ensureNamespace(p.InstanceID)
	if err != nil {
		return "", err
	}
	defer ns.Close()
	inside, err := openEnd(ns, instanceName)
	if err != nil {
		return "", err
	}
	defer inside.handle.Close()
	if err := setUp(inside.handle, "lo"); err != nil {
		return "", err
	}
	link, err := ensureVeth(inside, port, p.Address.Addr(), bridge.Attrs().Index)
	if err != nil {
		return "", fmt.Errorf("connect instance %q: %w", p.InstanceID, err)
	}
	if err := inside.handle.AddrReplace(link, &netlink.Addr{IPNet: ipNet(p.Address)}); err != nil {
		return "", fmt.Errorf("set address of instance %q: %w", p.InstanceID, err)
	}
	if err := defaultRoute(inside.handle, link, p.Gateway); err != nil {
		return "", fmt.Errorf("set default route of instance %q: %w", p.InstanceID, err)
	}
	if err := inNamespace(ns, prepareInstanceNamespace); err != nil {
		return "", fmt.Errorf("set up namespace of instance %q: %w", p.InstanceID, err)
	}
	return NamespacePath(p.InstanceID), nil
}

// Detach removes the namespace of an instance. Its port disappears, too: the kernel removes both ends of a veth pair
// together.
func (f *Fabric) Detach(_ context.Context, instanceID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.detach(instanceID)
}

func (f *Fabric) detach(instanceID string) error { return dissolve(instanceID, instanceName) }

// dissolve removes a namespace, and before that the link that connects it. A lingering process or connection keeps the
// namespace alive, so that two interfaces would answer for its address once the address is assigned again.
func dissolve(id, link string) error {
	ns, err := openNamespace(id)
	if err != nil {
		return removeNamespace(id) // There is no namespace, or only its name, as after a crash between two steps.
	}
	defer ns.Close()
	inside, err := openEnd(ns, link)
	if err != nil {
		return err
	}
	defer inside.handle.Close()
	if l, err := inside.handle.LinkByName(link); err == nil {
		if err := inside.handle.LinkDel(l); err != nil && !isGone(err) {
			return fmt.Errorf("disconnect network namespace of %q: %w", id, err)
		}
	}
	return removeNamespace(id)
}

// EnsureAddress adds an address to the public bridge.
func (f *Fabric) EnsureAddress(_ context.Context, a netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	public, err := netlink.LinkByName(PublicBridge)
	if err != nil {
		return fmt.Errorf("find %s: %w", PublicBridge, err)
	}
	if err := netlink.AddrReplace(public, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, 32))}); err != nil {
		return fmt.Errorf("add address %s: %w", a, err)
	}
	return nil
}

// RemoveAddress removes an address from the public bridge.
func (f *Fabric) RemoveAddress(_ context.Context, a netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	public, err := netlink.LinkByName(PublicBridge)
	if err != nil {
		return fmt.Errorf("find %s: %w", PublicBridge, err)
	}
	err = netlink.AddrDel(public, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, 32))})
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove address %s: %w", a, err)
	}
	return nil
}

// Dial connects to an address inside a network, from its gateway.
func (f *Fabric) Dial(ctx context.Context, networkID string, target netip.AddrPort) (net.Conn, error) {
	ns, err := openNamespace(networkID)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	var conn net.Conn
	err = inNamespace(ns, func() (err error) {
		// An IP address is dialled on the calling thread, so the socket is created in the namespace.
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp4", target.String())
		return err
	})
	return conn, err
}

// Leftovers lists namespaces by name, and the addresses of the public bridge.
func (f *Fabric) Leftovers(context.Context) (fabric.Inventory, error) {
	var out fabric.Inventory
	names, err := filepath.Glob(filepath.Join(namespaceDir, namespacePrefix+"*"))
	if err != nil {
		return out, err
	}
	for _, n := range names {
		switch id := strings.TrimPrefix(filepath.Base(n), namespacePrefix); {
		case strings.HasPrefix(id, networkPrefix):
			out.Networks = append(out.Networks, id)
		case strings.HasPrefix(id, instancePrefix):
			out.Instances = append(out.Instances, id)
		}
	}
	public, err := netlink.LinkByName(PublicBridge)
	if err != nil {
		return out, fmt.Errorf("find %s: %w", PublicBridge, err)
	}
	addresses, err := netlink.AddrList(public, netlink.FAMILY_V4)
	if err != nil {
		return out, fmt.Errorf("list addresses of %s: %w", PublicBridge, err)
	}
	for _, a := range addresses {
		if addr, ok := netip.AddrFromSlice(a.IP.To4()); ok && addr != f.Public.Addr() {
			out.Addresses = append(out.Addresses, addr)
		}
	}
	return out, nil
}

// Cleanup removes everything the fabric has ever made on this host.
func Cleanup() error {
	var errs []error
	names, err := filepath.Glob(filepath.Join(namespaceDir, namespacePrefix+"*"))
	errs = append(errs, err)
	for _, n := range names {
		errs = append(errs, removeNamespace(strings.TrimPrefix(filepath.Base(n), namespacePrefix)))
	}
	links, err := netlink.LinkList()
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("list network interfaces: %w", err))...)
	}
	public := 0
	for _, l := range links {
		if l.Attrs().Name == PublicBridge {
			public = l.Attrs().Index
		}
	}
	if public == 0 {
		return errors.Join(errs...)
	}
	for _, l := range links { // Namespaces end a little after their names; their uplinks are removed at once.
		if l.Attrs().MasterIndex == public || l.Attrs().Index == public {
			if err := netlink.LinkDel(l); err != nil && !isGone(err) {
				errs = append(errs, fmt.Errorf("remove network interface %s: %w", l.Attrs().Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

func isGone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.As(err, &netlink.LinkNotFoundError{})
}

// NamespacePath is the path of the network namespace of an instance or a network.
func NamespacePath(id string) string { return filepath.Join(namespaceDir, namespacePrefix+id) }

func openNamespace(id string) (netns.NsHandle, error) {
	ns, err := netns.GetFromPath(NamespacePath(id))
	if err != nil {
		return ns, fmt.Errorf("open network namespace of %q: %w", id, err)
	}
	return ns, nil
}
