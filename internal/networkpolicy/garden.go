package networkpolicy

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelToGarden on a pod of an extension with access to the garden allows the connections that it needs for that.
const LabelToGarden = "networking.hortus.dev/to-garden"

// AllowGarden is the name of the policy for LabelToGarden.
const AllowGarden = "allow-to-garden"

// defaultPort is the port of a URL of an API server without one.
const defaultPort = 443

// ToGarden returns the policy by which labelled pods of an extension reach the garden's API server at a URL. The
// addresses behind a name are not known: a name allows its port at all addresses but link-local ones, and the name
// servers. The author of the extension's namespace maintains the policy; it is none of [Desired].
func ToGarden(namespace, server string) (*networkingv1.NetworkPolicy, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("read address of the garden: %w", err)
	}
	port := uint64(defaultPort)
	if text := u.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return nil, fmt.Errorf("read port of the garden's address %q: %w", server, err)
		}
	}
	rules := []networkingv1.NetworkPolicyEgressRule{{Ports: ports(corev1.ProtocolTCP, int32(port))}}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil {
		cidr := netip.PrefixFrom(address, address.BitLen()).String()
		rules[0].To = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}}
	} else {
		rules[0].To = without(everything, linkLocal)
		rules = append(rules, dns)
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: AllowGarden,
			Annotations: map[string]string{annotationDescription: "Lets labelled pods reach the API server of the garden."},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: labelled(LabelToGarden), Egress: rules,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		},
	}, nil
}
