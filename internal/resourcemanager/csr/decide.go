package csr

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/csr"
)

// decision is what happens to a request.
type decision int

const (
	ignore decision = iota // Not ours: left to the owner of the Shoot.
	approve
	deny
	later // It depends on facts that are not known yet.
)

// verdict is a decision, and why it was taken.
type verdict struct {
	decision decision
	message  string
	// machine is the name of the machine that gets its permissions before the approval, "" if the request needs none.
	machine string
	// searched: the verdict relies on the absence of other machines with the token.
	searched bool
}

// final reports whether the verdict decides the request.
func (v verdict) final() bool { return v.decision == approve || v.decision == deny }

// machine is a machine of the Shoot.
type machine struct {
	name string
	node string // Name of its Node, "" if it has none yet.
	// dnsNames and addresses are those that the provider has reported; most providers report none.
	dnsNames  []string
	addresses []netip.Addr
}

// facts are what decisions are made from.
type facts struct {
	machines []machine     // All that the request concerns.
	node     *corev1.Node  // The one that the request is for, nil if it does not exist.
	nodes    []corev1.Node // All others that have a requested name or address; for serving certificates only.
}

// subject is what a request is about, by which the facts about it are found.
type subject struct {
	machine string   // Name of the machine, "" if there is none.
	nodes   []string // The Node that the request is for, and that of the requester.
	token   string   // ID of the bootstrap token, "" if it came without.
	// names and addresses are those requested for a serving certificate.
	names     []string
	addresses []netip.Addr
}

// subjectOf leaves out what nobody can have.
func subjectOf(r *certificatesv1.CertificateSigningRequest) subject {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return subject{}
	}
	var s subject
	name, isAgent := strings.CutPrefix(parsed.Subject.CommonName, corev1beta1.NodeAgentUserPrefix)
	if isAgent && canBeMachine(name) {
		s.machine = name
	}
	if r.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName {
		return s
	}
	for _, user := range []string{parsed.Subject.CommonName, r.Spec.Username} {
		node, isNode := strings.CutPrefix(user, corev1beta1.KubeletUserPrefix)
		if isNode && canBeLabel(node) && !slices.Contains(s.nodes, node) {
			s.nodes = append(s.nodes, node)
		}
	}
	s.token, _ = bootstrapToken(r)
	if r.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		s.names = parsed.DNSNames
		for _, ip := range parsed.IPAddresses {
			address, _ := netip.AddrFromSlice(ip)
			s.addresses = append(s.addresses, address.Unmap())
		}
	}
	return s
}

// concerns reports whether a decision may depend on a machine.
func (s subject) concerns(m machine) bool {
	return m.name == s.machine || slices.Contains(s.nodes, m.node) || s.token != "" && m.tokenID() == s.token ||
		slices.ContainsFunc(s.names, m.isNamed) ||
		slices.ContainsFunc(s.addresses, func(a netip.Addr) bool { return slices.Contains(m.addresses, a) })
}

// concernsNode reports whether a Node has something that is requested.
func (s subject) concernsNode(n *corev1.Node) bool {
	return slices.ContainsFunc(s.names, func(name string) bool { return isNamed(n, name) }) ||
		slices.ContainsFunc(s.addresses, func(a netip.Addr) bool { return hasAddress(n, a) })
}

// having returns the machines that have a node.
func (f facts) having(node string) []machine {
	if node == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f.machines), func(m machine) bool { return m.node != node })
}

// named returns the machine of a name, nil if there is none.
func (f facts) named(name string) *machine {
	for i := range f.machines {
		if f.machines[i].name == name {
			return &f.machines[i]
		}
	}
	return nil
}

// nodeName returns the name of the Node that a request is for, "" if there is none.
func (f facts) nodeName(r *certificatesv1.CertificateSigningRequest) string {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return ""
	}
	if name, ok := strings.CutPrefix(parsed.Subject.CommonName, corev1beta1.KubeletUserPrefix); ok {
		return name
	}
	name, ok := strings.CutPrefix(parsed.Subject.CommonName, corev1beta1.NodeAgentUserPrefix)
	if m := f.named(name); ok && m != nil {
		return m.node
	}
	return ""
}

// foreign reports whether a request concerns no machine: no machine has the node, and the credentials are not a
// machine's.
func (f facts) foreign(r *certificatesv1.CertificateSigningRequest, node string) bool {
	token, bootstrapping := bootstrapToken(r)
	byMachine := strings.HasPrefix(r.Spec.Username, corev1beta1.NodeAgentUserPrefix) ||
		slices.ContainsFunc(f.machines, func(m machine) bool {
			return m.node != "" && r.Spec.Username == corev1beta1.KubeletUserPrefix+m.node || bootstrapping &&
				m.tokenID() == token
		})
	return len(f.having(node)) == 0 && !byMachine
}

// leftToOwner is the verdict on what is foreign.
var leftToOwner = verdict{decision: ignore, message: "no machine has the node"}

func denied(format string, args ...any) verdict {
	return verdict{decision: deny, message: fmt.Sprintf(format, args...)}
}

// tokenID is the ID of a machine's bootstrap token: the machine controller makes it from the end of the machine's name.
// Two machines may have the same, and then share the token.
func (m machine) tokenID() string {
	const tail, digits = 5, 6
	if len(m.name) < tail {
		return ""
	}
	return hex.EncodeToString([]byte(m.name[len(m.name)-tail:]))[:digits]
}

// bootstrapToken returns the ID of the bootstrap token that a request came with.
func bootstrapToken(r *certificatesv1.CertificateSigningRequest) (string, bool) {
	id, ok := strings.CutPrefix(r.Spec.Username, corev1beta1.BootstrapUserPrefix)
	return id, ok && id != "" && slices.Contains(r.Spec.Groups, corev1beta1.BootstrappersGroup)
}

// ours reports whether a request is for this package, and still open.
func ours(r *certificatesv1.CertificateSigningRequest) bool {
	if !csr.Open(r) {
		return false
	}
	switch r.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName:
		return true
	case certificatesv1.KubeAPIServerClientSignerName:
		parsed, err := csr.Parse(r.Spec.Request)
		return err == nil && strings.HasPrefix(parsed.Subject.CommonName, corev1beta1.NodeAgentUserPrefix)
	}
	return false
}

// kubeletServing decides about a serving certificate: it is for the node's own name, and for addresses that no other
// node has.
func kubeletServing(r *certificatesv1.CertificateSigningRequest, f facts) verdict {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return denied("cannot read the request: %v", err)
	}
	name, isNode := strings.CutPrefix(parsed.Subject.CommonName, corev1beta1.KubeletUserPrefix)
	if f.foreign(r, name) {
		return leftToOwner
	}
	machines := f.having(name)
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{isNode && parsed.Subject.CommonName == r.Spec.Username, "the common name is not that of the requester, a node"},
		{
			slices.Equal(parsed.Subject.Organization, []string{corev1beta1.KubeletsGroup}),
			"the organization is not exactly " + corev1beta1.KubeletsGroup,
		},
		{len(parsed.EmailAddresses)+len(parsed.URIs) == 0, "email addresses and URIs are not allowed"},
		{len(parsed.IPAddresses) > 0, "IP addresses are missing"},
		{csr.ForOnly(certificatesv1.UsageServerAuth, r.Spec.Usages), "the usages are not those of a serving certificate"},
		{f.node != nil, "the node does not exist"},
		{len(machines) == 1, fmt.Sprintf("%d machines belong to the node, want exactly one", len(machines))},
	} {
		if !rule.holds {
			return denied("%s", rule.why)
		}
	}
	m := machines[0]
	for _, dns := range parsed.DNSNames {
		if why := f.mayBeNamed(m, dns); why != "" {
			return denied("the DNS name %q %s", dns, why)
		}
	}
	for _, ip := range parsed.IPAddresses {
		address, _ := netip.AddrFromSlice(ip)
		if why := f.mayHave(m, address.Unmap()); why != "" {
			return denied("the IP address %s %s", ip, why)
		}
	}
	return verdict{decision: approve, message: "the certificate is for the addresses of a node with one machine"}
}

// mayBeNamed returns why a machine may not have a certificate for a DNS name, "" if it may. Besides the name of its
// Node and those that the provider reports it may have the host name in the Node's status, under the same conditions as
// an address there.
func (f facts) mayBeNamed(m machine, dns string) string {
	if names := append([]string{m.node}, m.dnsNames...); slices.Contains(names, dns) {
		return ""
	} else if m.reported() {
		return fmt.Sprintf("is not one of the machine: %q", names)
	}
	if !slices.Contains(f.node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: dns}) {
		return "is neither the node's name nor its host name"
	}
	if len(validation.IsDNS1123Subdomain(dns)) > 0 { // A wildcard would stand for the names of others.
		return "is not a host name"
	}
	return f.taken(m, func(n *corev1.Node) bool { return isNamed(n, dns) }, func(o machine) bool { return o.isNamed(dns) })
}

// mayHave returns why a machine may not have a certificate for an address, "" if it may. What the provider reports is
// certain. Without it there is only what the Node says, which its kubelet writes itself: so no other Node and no other
// machine may have the address.
func (f facts) mayHave(m machine, address netip.Addr) string {
	if len(m.addresses) > 0 {
		if !slices.Contains(m.addresses, address) {
			return fmt.Sprintf("is not one of the machine: %q", m.addresses)
		}
		return ""
	}
	own := false
	for _, a := range f.node.Status.Addresses {
		own = own || a.Type == corev1.NodeInternalIP && isAddress(a, address)
	}
	if !own {
		return "is not an internal one of the node"
	}
	return f.taken(m, func(n *corev1.Node) bool { return hasAddress(n, address) },
		func(o machine) bool { return slices.Contains(o.addresses, address) })
}

// taken returns which other Node or machine has what a machine requests, "" if none has it.
func (f facts) taken(m machine, byNode func(*corev1.Node) bool, byMachine func(machine) bool) string {
	for i := range f.nodes {
		if other := &f.nodes[i]; other.Name != m.node && byNode(other) {
			return fmt.Sprintf("is also that of node %q", other.Name)
		}
	}
	for _, other := range f.machines {
		if other.name != m.name && byMachine(other) {
			return fmt.Sprintf("is that of machine %q", other.name)
		}
	}
	return ""
}

// reported reports whether the provider has reported names or addresses of the machine.
func (m machine) reported() bool { return len(m.dnsNames)+len(m.addresses) > 0 }

// isNamed reports whether a machine, or its Node, has a DNS name. Letters of either case are the same there.
func (m machine) isNamed(dns string) bool {
	has := func(name string) bool { return strings.EqualFold(name, dns) }
	return has(m.name) || has(m.node) || slices.ContainsFunc(m.dnsNames, has)
}

// isNamed reports whether a DNS name is that of a Node, or among its addresses of whatever type.
func isNamed(n *corev1.Node, dns string) bool {
	has := func(a corev1.NodeAddress) bool { return strings.EqualFold(a.Address, dns) }
	return n.Name == dns || slices.ContainsFunc(n.Status.Addresses, has)
}

// hasAddress reports whether an address is among those of a Node.
func hasAddress(n *corev1.Node, address netip.Addr) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return isAddress(a, address) })
}

// isAddress reports whether an address of a Node, in any notation, equals a given one.
func isAddress(a corev1.NodeAddress, address netip.Addr) bool {
	parsed, err := netip.ParseAddr(a.Address)
	return err == nil && parsed.Unmap() == address
}

// kubeletClient decides about a client certificate of a kubelet. A bootstrap token gets the first one of its own
// machine; once the node exists, it requests others itself.
func kubeletClient(r *certificatesv1.CertificateSigningRequest, f facts) verdict {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return denied("cannot read the request: %v", err)
	}
	node, isNode := strings.CutPrefix(parsed.Subject.CommonName, corev1beta1.KubeletUserPrefix)
	if f.foreign(r, node) {
		return leftToOwner
	}
	having := f.having(node)
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{isNode && node != "", "the common name is not that of a node"},
		{
			slices.Equal(parsed.Subject.Organization, []string{corev1beta1.KubeletsGroup}),
			"the organization is not exactly " + corev1beta1.KubeletsGroup,
		},
		{!csr.HasAlternativeNames(parsed), "alternative names are not allowed"},
		{csr.ForOnly(certificatesv1.UsageClientAuth, r.Spec.Usages), "the usages are not those of a client certificate"},
		{len(having) <= 1, fmt.Sprintf("%d machines have the node", len(having))},
	} {
		if !rule.holds {
			return denied("%s", rule.why)
		}
	}
	token, bootstrapping := bootstrapToken(r)
	switch {
	case r.Spec.Username == parsed.Subject.CommonName && len(having) == 1:
		return verdict{decision: approve, message: "the kubelet renews its certificate", machine: having[0].name}
	case !bootstrapping:
		return denied("user %q may not request a certificate for the kubelet of node %q", r.Spec.Username, node)
	case len(having) == 1:
		return first(having[0], token, f.node != nil)
	case slices.ContainsFunc(f.machines, func(m machine) bool { return m.node == "" && m.tokenID() == token }):
		return verdict{decision: later, message: "it is not known yet which node the token's machine has"}
	}
	v := denied("the token's machine has another node than %q", node)
	v.searched = true
	return v
}

// first decides about the first certificate of a machine, requested with its bootstrap token.
func first(m machine, token string, joined bool) verdict {
	if m.tokenID() != token {
		return denied("the bootstrap token is not that of machine %q", m.name)
	}
	if joined {
		return denied("machine %q has joined: it requests others with its own certificate", m.name)
	}
	return verdict{decision: approve, message: "the machine bootstraps", machine: m.name}
}

// nodeAgent decides about a client certificate of a node agent.
func nodeAgent(r *certificatesv1.CertificateSigningRequest, f facts) verdict {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return denied("cannot read the request: %v", err)
	}
	name, _ := strings.CutPrefix(parsed.Subject.CommonName, corev1beta1.NodeAgentUserPrefix)
	m := f.named(name)
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{
			slices.Equal(parsed.Subject.Organization, []string{corev1beta1.NodeAgentsGroup}),
			"the organization is not exactly " + corev1beta1.NodeAgentsGroup,
		},
		{!csr.HasAlternativeNames(parsed), "alternative names are not allowed"},
		{csr.ForOnly(certificatesv1.UsageClientAuth, r.Spec.Usages), "the usages are not those of a client certificate"},
		{m != nil, "the machine does not exist"},
	} {
		if !rule.holds {
			return denied("%s", rule.why)
		}
	}
	user := r.Spec.Username
	token, bootstrapping := bootstrapToken(r)
	switch {
	case user == parsed.Subject.CommonName:
		return verdict{decision: approve, message: "the node agent renews its certificate", machine: m.name}
	case bootstrapping && m.tokenID() == token && m.node == "":
		return verdict{decision: later, message: "it is not known yet which node the machine has"}
	case bootstrapping:
		return first(*m, token, f.node != nil)
	case m.node != "" && user == corev1beta1.KubeletUserPrefix+m.node:
		return verdict{decision: approve, message: "the machine's node requests that of its node agent", machine: m.name}
	}
	return denied("user %q may not request a certificate for the node agent of machine %q", user, m.name)
}

const (
	// minRetry and maxRetry bound the time until a waiting request is checked again, in case an event was lost.
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// again returns the time until an open request is checked again: as long as it has been open, within bounds.
func again(open time.Duration) time.Duration { return min(max(open, minRetry), maxRetry) }
