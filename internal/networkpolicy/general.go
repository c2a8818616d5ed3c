package networkpolicy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// Names of the policies that every isolated namespace has.
const (
	DenyAll              = "deny-all"
	AllowDNS             = "allow-to-dns"
	AllowRuntime         = "allow-to-runtime-apiserver"
	AllowPublicNetworks  = "allow-to-public-networks"
	AllowPrivateNetworks = "allow-to-private-networks"
	AllowBlockedCIDRs    = "allow-to-blocked-cidrs"
)

// LabelIsolated, "true" on the namespace of a control plane, says that all of its pods have the labels that they need:
// from then on all other connections are denied there.
const LabelIsolated = "networking.hortus.dev/isolated"

// labelOwn marks the policies of this package.
const labelOwn = "networking.hortus.dev/managed-by"

// ownedBy is the value of labelOwn.
const ownedBy = "resource-manager"

// annotationDescription is for people who look at a policy.
const annotationDescription = resourcesv1alpha1.AnnotationDescription

var (
	everything = prefixes("0.0.0.0/0")
	// private are the ranges of private networks (RFC 1918, RFC 6598).
	private = prefixes("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
	// linkLocal has the metadata services of clouds (RFC 3927). No pod may reach it.
	linkLocal = prefixes("169.254.0.0/16")
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// dns allows the cluster's name servers, at their ports behind their Services.
var dns = networkingv1.NetworkPolicyEgressRule{
	To: []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: named(metav1.NamespaceSystem),
		PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "k8s-app", Operator: metav1.LabelSelectorOpIn, Values: []string{"coredns", "kube-dns", "node-local-dns"}},
		}},
	}},
	Ports: slices.Concat(ports(corev1.ProtocolUDP, 53, 8053), ports(corev1.ProtocolTCP, 53, 8053)),
}

// Networks are the networks that the policies of a cluster depend on, besides its Services.
type Networks struct {
	// Cluster has the ranges of the cluster's own pods, services and nodes.
	Cluster []netip.Prefix
	// Blocked has the ranges that the operator keeps control planes from.
	Blocked []netip.Prefix
	// API has the addresses of the cluster's API server: those of its Service and its endpoints.
	API []netip.AddrPort
}

// Managed reports whether a namespace gets policies.
func Managed(ns *corev1.Namespace) bool {
	roles := []string{corev1beta1.RoleGarden, corev1beta1.RoleIngress, corev1beta1.RoleShoot, corev1beta1.RoleExtension}
	return ns.DeletionTimestamp == nil && slices.Contains(roles, ns.Labels[corev1beta1.LabelRole])
}

// isolated reports whether all pods of a managed namespace have the labels they need. Control planes of an older
// version may not have them yet.
func isolated(ns *corev1.Namespace) bool {
	return ns.Labels[corev1beta1.LabelRole] != corev1beta1.RoleShoot || ns.Labels[LabelIsolated] == "true"
}

// General returns the policies of a managed namespace that do not come from Services, ordered by name.
func General(ns *corev1.Namespace, n Networks) []*networkingv1.NetworkPolicy {
	out := []*networkingv1.NetworkPolicy{
		egress(ns.Name, AllowDNS, resourcesv1alpha1.LabelNetworkPolicyToDNS, "Lets labelled pods resolve names.", dns),
		egress(ns.Name, AllowRuntime, resourcesv1alpha1.LabelNetworkPolicyToRuntimeAPIServer,
			"Lets labelled pods reach the API server of this cluster.", apiServer(n.API)...),
		egress(ns.Name, AllowPublicNetworks, resourcesv1alpha1.LabelNetworkPolicyToPublicNetworks,
			"Lets labelled pods reach public addresses.",
			to(without(everything, slices.Concat(private, linkLocal, n.Blocked)))...),
		egress(ns.Name, AllowPrivateNetworks, resourcesv1alpha1.LabelNetworkPolicyToPrivateNetworks,
			"Lets labelled pods reach private addresses outside this cluster.",
			to(without(private, slices.Concat(n.Cluster, n.Blocked)))...),
		egress(ns.Name, AllowBlockedCIDRs, resourcesv1alpha1.LabelNetworkPolicyToBlockedCIDRs,
			"Lets labelled pods reach the ranges that the operator has blocked.", to(without(n.Blocked, nil))...),
	}
	if isolated(ns) {
		out = append(out, Deny(ns.Name))
	}
	sortByName(out)
	return out
}

// Deny returns the policy that denies all connections that no other policy allows. The creator of a namespace adds it
// before any pod.
func Deny(namespace string) *networkingv1.NetworkPolicy {
	return policy(namespace, DenyAll, "What no other policy allows is denied.", networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	})
}

// policy returns a policy with the marks of this package.
func policy(namespace, name, description string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{labelOwn: ownedBy}, Annotations: map[string]string{annotationDescription: description},
		},
		Spec: spec,
	}
}

// egress returns a policy for the egress of labelled pods. Without rules it allows none.
func egress(
	namespace, name, label, description string, rules ...networkingv1.NetworkPolicyEgressRule,
) *networkingv1.NetworkPolicy {
	return policy(namespace, name, description, networkingv1.NetworkPolicySpec{
		PodSelector: labelled(label), Egress: rules, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
	})
}

func labelled(label string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{label: resourcesv1alpha1.NetworkPolicyAllowed}}
}

func named(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

func ports(protocol corev1.Protocol, numbers ...int32) []networkingv1.NetworkPolicyPort {
	var out []networkingv1.NetworkPolicyPort
	for _, n := range numbers {
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(n))})
	}
	return out
}

// apiServer has a rule for each address: policies see the addresses of a Service before or after translation, depending
// on the network of the cluster.
func apiServer(addresses []netip.AddrPort) []networkingv1.NetworkPolicyEgressRule {
	var out []networkingv1.NetworkPolicyEgressRule
	for _, a := range sorted(addresses, netip.AddrPort.Compare) {
		cidr := netip.PrefixFrom(a.Addr(), a.Addr().BitLen()).String()
		out = append(out, networkingv1.NetworkPolicyEgressRule{
			To:    []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}},
			Ports: ports(corev1.ProtocolTCP, int32(a.Port())),
		})
	}
	return out
}

// to allows peers. A rule without peers would allow everything, so without peers it returns no rule.
func to(peers []networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyEgressRule {
	if len(peers) == 0 {
		return nil
	}
	return []networkingv1.NetworkPolicyEgressRule{{To: peers}}
}

// without returns ranges without parts of them. An exception must lie inside its range, as Kubernetes validates; a part
// that covers the range removes the range.
func without(ranges, parts []netip.Prefix) []networkingv1.NetworkPolicyPeer {
	var out []networkingv1.NetworkPolicyPeer
	for _, whole := range sorted(ranges, netip.Prefix.Compare) {
		block, covered := &networkingv1.IPBlock{CIDR: whole.String()}, false
		for _, part := range sorted(parts, netip.Prefix.Compare) {
			if !part.Overlaps(whole) {
				continue
			}
			covered = covered || part.Bits() <= whole.Bits()
			block.Except = append(block.Except, part.String())
		}
		if !covered {
			out = append(out, networkingv1.NetworkPolicyPeer{IPBlock: block})
		}
	}
	return out
}

// sorted returns the distinct values in order.
func sorted[T comparable](in []T, compare func(a, b T) int) []T {
	out := slices.Clone(in)
	slices.SortFunc(out, compare)
	return slices.Compact(out)
}
