package csr

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/csr"
)

const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"

	bootstrapUserPrefix = "system:bootstrap:"
	bootstrapGroup      = "system:bootstrappers"
)

// decision is what happens to a request.
type decision int

const (
	ignore decision = iota // Not ours.
	approve
	deny
	later // It depends on what is not known yet.
)

// machine is a machine of the Shoot and its node, if it has one yet.
type machine struct{ name, node string }

// tokenID is the ID of a machine's bootstrap token: the machine controller makes it from the end of the machine's name. Two
// machines may have the same, and then share the token.
func (m machine) tokenID() string {
	const tail, digits = 5, 6
	if len(m.name) < tail {
		return ""
	}
	return hex.EncodeToString([]byte(m.name[len(m.name)-tail:]))[:digits]
}

// bootstrapToken returns the ID of the bootstrap token that a request came with.
func bootstrapToken(r *certificatesv1.CertificateSigningRequest) (string, bool) {
	id, ok := strings.CutPrefix(r.Spec.Username, bootstrapUserPrefix)
	return id, ok && id != "" && slices.Contains(r.Spec.Groups, bootstrapGroup)
}

// ours tells whether a request is for this package, and still open.
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

// kubeletServing decides about a serving certificate. node is nil if it does not exist, machines are those of the node.
func kubeletServing(r *certificatesv1.CertificateSigningRequest, node *corev1.Node, machines []machine) (decision, string) {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return deny, fmt.Sprintf("cannot read the request: %v", err)
	}
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{strings.HasPrefix(r.Spec.Username, nodeUserPrefix), "the requester is not a node"},
		{parsed.Subject.CommonName == r.Spec.Username, "the common name is not that of the requester"},
		{slices.Equal(parsed.Subject.Organization, []string{nodesGroup}), "the organization is not exactly " + nodesGroup},
		{len(parsed.EmailAddresses)+len(parsed.URIs) == 0, "email addresses and URIs are not allowed"},
		{len(parsed.DNSNames)+len(parsed.IPAddresses) > 0, "DNS names and IP addresses are missing"},
		{servingUsages(r.Spec.Usages), "the usages are not those of a serving certificate"},
		{node != nil, "the node does not exist"},
		{len(machines) == 1, fmt.Sprintf("%d machines belong to the node, want exactly one", len(machines))},
	} {
		if !rule.holds {
			return deny, rule.why
		}
	}
	names, addresses := addressesOf(node)
	dns := slices.Sorted(slices.Values(parsed.DNSNames))
	if !slices.Equal(slices.Compact(dns), names) {
		return deny, fmt.Sprintf("the DNS names %q are not those of the node, %q", dns, names)
	}
	var ips []string
	for _, ip := range parsed.IPAddresses {
		ips = append(ips, ip.String())
	}
	slices.Sort(ips)
	if !slices.Equal(slices.Compact(ips), addresses) {
		return deny, fmt.Sprintf("the IP addresses %q are not those of the node, %q", ips, addresses)
	}
	return approve, "the certificate is for the addresses of a node with one machine"
}

func servingUsages(usages []certificatesv1.KeyUsage) bool {
	return csr.ForOnly(certificatesv1.UsageServerAuth, usages)
}

// addressesOf returns the host names and internal addresses of a node, sorted.
func addressesOf(n *corev1.Node) (names, addresses []string) {
	for _, a := range n.Status.Addresses {
		switch a.Type {
		case corev1.NodeHostName:
			names = append(names, a.Address)
		case corev1.NodeInternalIP:
			addresses = append(addresses, a.Address)
		}
	}
	slices.Sort(names)
	slices.Sort(addresses)
	return slices.Compact(names), slices.Compact(addresses)
}

// named returns the name in the request's subject, without a prefix that it has to have.
func named(r *certificatesv1.CertificateSigningRequest, prefix string) string {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return ""
	}
	name, _ := strings.CutPrefix(parsed.Subject.CommonName, prefix)
	return name
}

// candidates are the machines that a request for a node may be of: those that have the node, and those of which the machine
// controller has not said yet which node they have.
type candidates struct{ having, undecided []machine }

// kubeletClient decides about a client certificate of a kubelet, and returns the machine that it is for. A bootstrap token gets
// the first one of its own machine; joined tells whether the node exists, which then asks for itself.
func kubeletClient(r *certificatesv1.CertificateSigningRequest, of candidates, joined bool) (machine, decision, string) {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return machine{}, deny, fmt.Sprintf("cannot read the request: %v", err)
	}
	node, isNode := strings.CutPrefix(parsed.Subject.CommonName, nodeUserPrefix)
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{isNode && node != "", "the common name is not that of a node"},
		{slices.Equal(parsed.Subject.Organization, []string{nodesGroup}), "the organization is not exactly " + nodesGroup},
		{!csr.HasAlternativeNames(parsed), "alternative names are not allowed"},
		{clientUsages(r.Spec.Usages), "the usages are not those of a client certificate"},
		{len(of.having) <= 1, fmt.Sprintf("%d machines have the node", len(of.having))},
	} {
		if !rule.holds {
			return machine{}, deny, rule.why
		}
	}
	token, bootstrapping := bootstrapToken(r)
	switch {
	case r.Spec.Username == parsed.Subject.CommonName && len(of.having) == 1:
		return of.having[0], approve, "the kubelet renews its certificate"
	case r.Spec.Username == parsed.Subject.CommonName:
		return machine{}, deny, "no machine has the node any more"
	case !bootstrapping:
		return machine{}, deny, fmt.Sprintf("user %q may not ask for the kubelet of node %q", r.Spec.Username, node)
	case len(of.having) == 0:
		if slices.ContainsFunc(of.undecided, func(m machine) bool { return m.tokenID() == token }) {
			return machine{}, later, "it is not known yet which node the token's machine has"
		}
		return machine{}, deny, "no machine has the node"
	}
	m := of.having[0]
	d, message := first(m, token, joined)
	return m, d, message
}

// first decides about the first certificate of a machine, which its bootstrap token asks for.
func first(m machine, token string, joined bool) (decision, string) {
	if m.tokenID() != token {
		return deny, fmt.Sprintf("the bootstrap token is not that of machine %q", m.name)
	}
	if joined {
		return deny, fmt.Sprintf("machine %q has joined: it asks with its own certificate", m.name)
	}
	return approve, "the machine bootstraps"
}

func clientUsages(usages []certificatesv1.KeyUsage) bool {
	return csr.ForOnly(certificatesv1.UsageClientAuth, usages)
}

// nodeAgent decides about a client certificate of a node agent. m is the machine in the name, nil if it does not exist; joined
// tells whether its node exists.
func nodeAgent(r *certificatesv1.CertificateSigningRequest, m *machine, joined bool) (decision, string) {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return deny, fmt.Sprintf("cannot read the request: %v", err)
	}
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{
			slices.Equal(parsed.Subject.Organization, []string{corev1beta1.NodeAgentsGroup}),
			"the organization is not exactly " + corev1beta1.NodeAgentsGroup,
		},
		{!csr.HasAlternativeNames(parsed), "alternative names are not allowed"},
		{clientUsages(r.Spec.Usages), "the usages are not those of a client certificate"},
		{m != nil, "the machine does not exist"},
	} {
		if !rule.holds {
			return deny, rule.why
		}
	}
	user := r.Spec.Username
	token, bootstrapping := bootstrapToken(r)
	switch {
	case user == parsed.Subject.CommonName:
		return approve, "the node agent renews its certificate"
	case bootstrapping && m.tokenID() == token && m.node == "":
		return later, "it is not known yet which node the machine has"
	case bootstrapping:
		return first(*m, token, joined)
	case strings.HasPrefix(user, nodeUserPrefix) && m.node != "" && user == nodeUserPrefix+m.node:
		return approve, "the machine's node asks for its node agent"
	}
	return deny, fmt.Sprintf("user %q may not ask for the node agent of machine %q", user, m.name)
}
