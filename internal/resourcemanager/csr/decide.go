package csr

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"

	// AgentUserPrefix and AgentsGroup are the identity of node-agents.
	AgentUserPrefix = "gardener.cloud:node-agent:machine:"
	AgentsGroup     = "gardener.cloud:node-agents"

	bootstrapUserPrefix = "system:bootstrap:"
	bootstrapGroup      = "system:bootstrappers"
	legacyAgentUser     = "system:serviceaccount:kube-system:gardener-node-agent"
)

// LabelNode on a Machine names its node.
const LabelNode = "node"

// decision is what happens to a request.
type decision int

const (
	ignore decision = iota // Not ours.
	approve
	deny
)

// machine is a machine of the Shoot and its node, if it has one yet.
type machine struct{ name, node string }

// ours tells whether a request is for this package, and still open.
func ours(r *certificatesv1.CertificateSigningRequest) bool {
	if len(r.Status.Certificate) > 0 || slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	}) {
		return false
	}
	if r.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		return true
	}
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return false
	}
	parsed, err := parse(r.Spec.Request)
	return err == nil && strings.HasPrefix(parsed.Subject.CommonName, AgentUserPrefix)
}

func parse(request []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("not a PEM certificate request")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// kubeletServing decides about a serving certificate. node is nil if it does not exist, machines are those of the node.
func kubeletServing(r *certificatesv1.CertificateSigningRequest, node *corev1.Node, machines []machine) (decision, string) {
	parsed, err := parse(r.Spec.Request)
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
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return false
		}
	}
	return slices.Contains(usages, certificatesv1.UsageServerAuth)
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

// agentMachine returns the machine whose node-agent a request is for.
func agentMachine(r *certificatesv1.CertificateSigningRequest) string {
	parsed, err := parse(r.Spec.Request)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(parsed.Subject.CommonName, AgentUserPrefix)
}

// nodeAgent decides about a client certificate of a node-agent. m is the machine in the name, nil if it does not exist.
func nodeAgent(r *certificatesv1.CertificateSigningRequest, m *machine) (decision, string) {
	parsed, err := parse(r.Spec.Request)
	if err != nil {
		return deny, fmt.Sprintf("cannot read the request: %v", err)
	}
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{slices.Equal(parsed.Subject.Organization, []string{AgentsGroup}), "the organization is not exactly " + AgentsGroup},
		{len(parsed.DNSNames)+len(parsed.IPAddresses)+len(parsed.EmailAddresses)+len(parsed.URIs) == 0, "alternative names are not allowed"},
		{m != nil, "the machine does not exist"},
	} {
		if !rule.holds {
			return deny, rule.why
		}
	}
	user := r.Spec.Username
	switch {
	case user == parsed.Subject.CommonName:
		return approve, "the node-agent renews its certificate"
	case strings.HasPrefix(user, bootstrapUserPrefix) && slices.Contains(r.Spec.Groups, bootstrapGroup):
		return approve, "the machine bootstraps its node-agent"
	case strings.HasPrefix(user, nodeUserPrefix) && m.node != "" && user == nodeUserPrefix+m.node:
		return approve, "the machine's node asks for its node-agent"
	case user == legacyAgentUser:
		return approve, "the node-agent leaves its shared identity"
	}
	return deny, fmt.Sprintf("user %q may not ask for the node-agent of machine %q", user, m.name)
}
