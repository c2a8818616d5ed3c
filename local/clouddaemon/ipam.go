package clouddaemon

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	api "hortus.dev/hortus/local/cloud"
)

// Layout of the public network, as parts of a /16: hosts .0.x, uplinks .1.0-.7.255, load balancers .8.0-.255.254.
const (
	publicBits      = 16
	uplinkFirst     = 1 << 8
	uplinkLast      = 8<<8 - 1
	balancerFirst   = 8 << 8
	balancerAuto    = 9 << 8 // Addresses below are assigned only on request.
	balancerLast    = 0xfffe
	gatewayOffset   = 1
	firstInstance   = 10 // Addresses below are left for gateways and for clusters that want fixed ones.
	minNetworkBits  = 8
	maxNetworkBits  = 28
	autoNetworkBits = 22
)

// autoRange is the range from which networks without a requested CIDR are allocated. It lies outside the ranges that
// clusters use by default for pods, services and nodes.
var autoRange = netip.MustParsePrefix("10.176.0.0/12")

// addressAt returns the address offset steps into prefix.
func addressAt(prefix netip.Prefix, offset uint32) netip.Addr {
	base := prefix.Masked().Addr().As4()
	var out [4]byte
	binary.BigEndian.PutUint32(out[:], binary.BigEndian.Uint32(base[:])+offset)
	return netip.AddrFrom4(out)
}

func offsetOf(prefix netip.Prefix, addr netip.Addr) uint32 {
	base, a := prefix.Masked().Addr().As4(), addr.As4()
	return binary.BigEndian.Uint32(a[:]) - binary.BigEndian.Uint32(base[:])
}

// nextAddress returns the first unused address of [first, last] behind the address after, beginning again at first when
// the end is reached. It reports false when all are used.
func nextAddress(prefix netip.Prefix, first, last uint32, after string, used map[string]bool) (string, bool) {
	start := first
	if a, err := netip.ParseAddr(after); err == nil && prefix.Contains(a) {
		if o := offsetOf(prefix, a); o >= first && o < last {
			start = o + 1
		}
	}
	count := last - first + 1
	for i := range count {
		offset := first + (start-first+i)%count
		if a := addressAt(prefix, offset).String(); !used[a] {
			return a, true
		}
	}
	return "", false
}

// instanceRange is the range of offsets that instances of a network get.
func instanceRange(prefix netip.Prefix) (first, last uint32) {
	size := uint32(1) << (32 - prefix.Bits())
	return min(firstInstance, size/4), size - 2
}

// parseNetworkCIDR checks the requested CIDR and returns it without host bits.
func parseNetworkCIDR(cidr string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() {
		return netip.Prefix{}, api.Errorf(api.CodeInvalid, "cidr: invalid value: %q (an IPv4 prefix)", cidr)
	}
	if p.Bits() < minNetworkBits || p.Bits() > maxNetworkBits {
		return netip.Prefix{}, api.Errorf(api.CodeInvalid, "cidr: invalid value: %q (a prefix of %d to %d bits)", cidr,
			minNetworkBits, maxNetworkBits)
	}
	if p != p.Masked() {
		return netip.Prefix{}, api.Errorf(api.CodeInvalid, "cidr: invalid value: %q (no bits set after its prefix, such as %s)",
			cidr, p.Masked())
	}
	return p, nil
}

// pickNetworkCIDR returns the first part of autoRange that no network overlaps.
func pickNetworkCIDR(taken []netip.Prefix) (netip.Prefix, error) {
	step := uint32(1) << (32 - autoNetworkBits)
	size := uint32(1) << (32 - autoRange.Bits())
	for offset := uint32(0); offset < size; offset += step {
		candidate := netip.PrefixFrom(addressAt(autoRange, offset), autoNetworkBits)
		free := true
		for _, t := range taken {
			free = free && !t.Overlaps(candidate)
		}
		if free {
			return candidate, nil
		}
	}
	return netip.Prefix{}, api.Errorf(api.CodeDepleted, "cidr: none is free (%s)", autoRange)
}

// checkPublicPrefix verifies the public network's prefix.
func checkPublicPrefix(p netip.Prefix) error {
	if !p.Addr().Is4() || p.Bits() != publicBits || p != p.Masked() {
		return fmt.Errorf("public network: invalid value: %s (an IPv4 prefix of %d bits)", p, publicBits)
	}
	return nil
}
