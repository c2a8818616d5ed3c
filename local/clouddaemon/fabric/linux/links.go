//go:build linux

package linux

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(p.Addr().AsSlice()), Mask: net.CIDRMask(p.Bits(), 32)}
}

func setUp(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set interface %s up: %w", name, err)
	}
	return nil
}

// ensureBridge makes a bridge with an address.
func ensureBridge(h *netlink.Handle, name string, address netip.Prefix) (netlink.Link, error) {
	link, err := h.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make bridge %s: %w", name, err)
		}
		link, err = h.LinkByName(name)
	}
	if err != nil {
		return nil, fmt.Errorf("find bridge %s: %w", name, err)
	}
	if err := ensureHardwareAddr(h, link, address.Addr()); err != nil {
		return nil, err
	}
	if err := h.AddrReplace(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
		return nil, fmt.Errorf("set address %s of %s: %w", address, name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("set %s up: %w", name, err)
	}
	return link, nil
}

// ensureHardwareAddr sets the hardware address of an interface to one derived from its network address. By default, a
// bridge takes the lowest hardware address of its ports whenever ports are added or removed, and a network address that
// moves to a new interface gets a new hardware address. The neighbour entries of others are wrong then, and packets are
// lost for up to a minute.
func ensureHardwareAddr(h *netlink.Handle, link netlink.Link, address netip.Addr) error {
	want := hardwareAddr(address)
	if bytes.Equal(link.Attrs().HardwareAddr, want) {
		return nil
	}
	if err := h.LinkSetHardwareAddr(link, want); err != nil {
		return fmt.Errorf("set hardware address of %s: %w", link.Attrs().Name, err)
	}
	return nil
}

// hardwareAddr returns an address in the range of locally administered ones (IEEE 802-2014, 8.4).
func hardwareAddr(address netip.Addr) net.HardwareAddr {
	v4 := address.As4()
	return append(net.HardwareAddr{0x02, 0x00}, v4[:]...)
}

// end is one end of a veth pair: a name in a namespace.
type end struct {
	ns     netns.NsHandle
	handle *netlink.Handle
	name   string
}

func openEnd(ns netns.NsHandle, name string) (end, error) {
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return end{}, fmt.Errorf("open netlink for interface %s: %w", name, err)
	}
	return end{ns: ns, handle: h, name: name}, nil
}

// ensureVeth makes a pair of inside, which is going to have the address, and port, which is made a port of the bridge
// with index master. An incomplete pair is created again.
func ensureVeth(inside, port end, address netip.Addr, master int) (netlink.Link, error) {
	link, err := inside.handle.LinkByName(inside.name)
	other, otherErr := port.handle.LinkByName(port.name)
	if err != nil || otherErr != nil {
		if err == nil {
			_ = inside.handle.LinkDel(link)
		}
		if otherErr == nil {
			_ = port.handle.LinkDel(other)
		}
		if link, other, err = makeVeth(inside, port); err != nil {
			return nil, err
		}
	}
	if err := ensureHardwareAddr(inside.handle, link, address); err != nil {
		return nil, err
	}
	if other.Attrs().MasterIndex != master {
		if err := port.handle.LinkSetMasterByIndex(other, master); err != nil {
			return nil, fmt.Errorf("make %s a port of its bridge: %w", port.name, err)
		}
	}
	if err := errors.Join(port.handle.LinkSetUp(other), inside.handle.LinkSetUp(link)); err != nil {
		return nil, fmt.Errorf("set %s and %s up: %w", inside.name, port.name, err)
	}
	return link, nil
}

// makeVeth makes the pair with both ends where they belong, so that no name is ever in the wrong namespace.
func makeVeth(inside, port end) (link, other netlink.Link, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = port.name
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: inside.name, PeerNamespace: netlink.NsFd(inside.ns)}
	if err := port.handle.LinkAdd(pair); err != nil {
		return nil, nil, fmt.Errorf("make interfaces %s and %s: %w", inside.name, port.name, err)
	}
	if link, err = inside.handle.LinkByName(inside.name); err == nil {
		other, err = port.handle.LinkByName(port.name)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find new interfaces %s and %s: %w", inside.name, port.name, err)
	}
	return link, other, nil
}

// defaultRoute routes everything else through gateway.
func defaultRoute(h *netlink.Handle, link netlink.Link, gateway netip.Addr) error {
	route := &netlink.Route{
		LinkIndex: link.Attrs().Index, Gw: net.IP(gateway.AsSlice()),
		Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
	}
	if err := h.RouteReplace(route); err != nil {
		return fmt.Errorf("set default route through %s: %w", gateway, err)
	}
	return nil
}
