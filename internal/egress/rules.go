package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Rules decide which addresses and names may be dialled. They do not change, and may be used concurrently.
type Rules struct {
	special []special
	// own are ranges that are allowed, whatever the denied ones are.
	own, denied []netip.Prefix
	// domains are denied with everything below them, in lower case and without dots at either end.
	domains []string
	// qualified: names are absolute and need a dot; no search list applies to them.
	qualified bool
}

// special is a range that no connection may reach, with a description.
type special struct {
	prefix netip.Prefix
	what   string
}

// hostRanges lead to the machine that dials, to its link, or to the service that gives the machine its credentials.
var hostRanges = ranges(
	"0.0.0.0/8", "this network", // RFC 1122; Linux connects 0.0.0.0 to the machine itself.
	"127.0.0.0/8", "loopback",
	"169.254.0.0/16", "link-local", // Has the metadata services of most clouds, 169.254.169.254.
	"224.0.0.0/4", "multicast",
	"255.255.255.255/32", "broadcast",
	"100.100.100.200/32", "a metadata service", // Alibaba Cloud.
	"168.63.129.16/32", "a metadata service", // Azure.
	"192.0.0.192/32", "a metadata service", // Oracle Cloud.
	"fd00:ec2::254/128", "a metadata service", // AWS.
	"fd20:ce::254/128", "a metadata service", // Google Cloud.
	"::/128", "unspecified",
	"::1/128", "loopback",
	"fe80::/10", "link-local",
	"fec0::/10", "site-local", // Deprecated by RFC 3879, still in use here and there.
	"ff00::/8", "multicast",
)

// outsideRanges mean nothing outside of a network, or carry an IPv4 address that would escape the other rules.
var outsideRanges = append(ranges(
	"240.0.0.0/4", "reserved", // API servers of Shoots have addresses of it inside their clusters.
	"192.0.0.0/24", "reserved", // RFC 6890.
	"64:ff9b::/96", "an embedded IPv4 address", // NAT64, RFC 6052.
	"64:ff9b:1::/48", "an embedded IPv4 address", // NAT64, RFC 8215.
	"2002::/16", "an embedded IPv4 address", // 6to4.
	"2001::/32", "an embedded IPv4 address", // Teredo.
	"::/8", "reserved", // RFC 4291; has the IPv4-compatible and the IPv4-translated addresses.
), hostRanges...)

// ranges takes pairs of a prefix and its description.
func ranges(pairs ...string) []special {
	var out []special
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, special{netip.MustParsePrefix(pairs[i]), pairs[i+1]})
	}
	return out
}

// clusterDomains are names inside a cluster or a machine.
var clusterDomains = []string{"svc", "cluster.local", "localhost"}

// Outside returns the rules for connections that leave the operator's networks: special ranges, the given networks and
// the names of clusters are denied, as are the given domains with everything below them.
func Outside(networks []netip.Prefix, domains []string) (*Rules, error) {
	r := &Rules{special: outsideRanges, domains: clusterDomains, qualified: true}
	for _, n := range networks {
		r.denied = append(r.denied, unmapped(n))
	}
	for _, d := range domains {
		name := strings.Trim(strings.ToLower(d), ".")
		if problem := malformed(name); problem != "" {
			return nil, fmt.Errorf("domain %q: %s", d, problem)
		}
		r.domains = append(r.domains[:len(r.domains):len(r.domains)], name)
	}
	return r, nil
}

// Inside returns the rules for connections made from within a cluster: its own networks are allowed, and everything
// else but the denied ones. The dialling machine itself, its link and its metadata service are denied in any case.
func Inside(own, denied []netip.Prefix) *Rules {
	r := &Rules{special: hostRanges, domains: []string{"localhost"}}
	for _, n := range own {
		r.own = append(r.own, unmapped(n))
	}
	for _, n := range denied {
		r.denied = append(r.denied, unmapped(n))
	}
	return r
}

// unmapped returns a range of IPv4-mapped addresses as one of IPv4, like the addresses that are compared with it.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// Check returns nil if the address may be dialled, else an *Error with the result RefusedAddress and the reason.
func (r *Rules) Check(addr netip.Addr) error {
	refused := func(reason string) error { return &Error{Result: RefusedAddress, Reason: reason} }
	if !addr.IsValid() {
		return refused("no address")
	}
	if addr.Zone() != "" {
		return refused("an address with a zone")
	}
	addr = addr.Unmap()
	for _, s := range r.special {
		if s.prefix.Contains(addr) {
			return refused("the address is not allowed: " + s.what)
		}
	}
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	if slices.ContainsFunc(r.denied, contains) && !slices.ContainsFunc(r.own, contains) {
		return refused("the address is not allowed")
	}
	return nil
}

// CheckName returns the name in the form in which it has to be resolved, or an *Error with the result RefusedName.
// Texts that some resolvers take for an address, such as 127.1 or 0x7f000001, are never names.
func (r *Rules) CheckName(name string) (string, error) {
	refused := func(reason string) (string, error) { return "", &Error{Result: RefusedName, Reason: reason} }
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if problem := malformed(name); problem != "" {
		return refused(problem)
	}
	for _, d := range r.domains {
		if name == d || strings.HasSuffix(name, "."+d) {
			return refused("the name is not allowed")
		}
	}
	if !r.qualified {
		return name, nil
	}
	if !strings.Contains(name, ".") {
		return refused("the name is not fully qualified")
	}
	return name + ".", nil
}

// Lengths of names and their labels, RFC 1035, section 2.3.4.
const (
	maxNameLength  = 253
	maxLabelLength = 63
)

// nameCharacters are those of host names, and the underscore, which some have in spite of RFC 952.
const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-_"

// malformed returns why a lower-case name is no host name, or "".
func malformed(name string) string {
	if name == "" || len(name) > maxNameLength {
		return "not a host name"
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > maxLabelLength || label[0] == '-' || label[len(label)-1] == '-' {
			return "not a host name"
		}
		if strings.ContainsFunc(label, func(c rune) bool { return !strings.ContainsRune(nameCharacters, c) }) {
			return "not a host name"
		}
	}
	if number(labels[len(labels)-1]) {
		return "neither a host name nor an IP address in its usual form"
	}
	return ""
}

// number reports whether a label may be one in decimal, octal, hexadecimal or binary form, as lenient parsers of
// addresses take it. No top-level domain begins with a digit.
func number(label string) bool {
	return label[0] >= '0' && label[0] <= '9' && strings.Trim(label, "0123456789abcdefxo_") == ""
}
