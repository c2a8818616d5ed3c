package shootsystem

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// Labels of pods in kube-system of a Shoot, besides those that seeds have too.
const (
	labelToAPIServer = "networking.gardener.cloud/to-apiserver"
	labelToKubelet   = "networking.gardener.cloud/to-kubelet"
	labelFromSeed    = "networking.gardener.cloud/from-seed"
)

const kubeletPort = 10250

// policies restrict the traffic of system components on the pod network of a Shoot, and allow the traffic of pods with
// documented labels, even if users deny all traffic in kube-system. Pods of users are not affected.
func policies() []client.Object {
	dns := metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}
	tunnel := metav1.LabelSelector{MatchLabels: map[string]string{"app": "vpn-shoot"}}
	everywhere := func(p ...networkingv1.NetworkPolicyPort) networkingv1.NetworkPolicyEgressRule {
		return networkingv1.NetworkPolicyEgressRule{Ports: p}
	}
	public := networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{
		CIDR: "0.0.0.0/0", Except: []string{
			"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
		},
	}}}}
	toDNS := networkingv1.NetworkPolicyEgressRule{
		To: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			PodSelector:       &dns,
		}},
		Ports: []networkingv1.NetworkPolicyPort{udp(53), tcp(53), udp(8053), tcp(8053)},
	}
	return []client.Object{
		&networkingv1.NetworkPolicy{
			ObjectMeta: describe("allow-dns",
				"Everybody may query the cluster's DNS servers, which query those of the node and the API server."),
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: dns,
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
				Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{
					udp(8053), tcp(8053), tcp(9153),
				}}},
				Egress: []networkingv1.NetworkPolicyEgressRule{everywhere(udp(53), tcp(53), tcp(443))},
			},
		},
		&networkingv1.NetworkPolicy{
			ObjectMeta: describe("allow-vpn",
				"The tunnel connects for the API server to anything in the cluster. Nothing connects to it."),
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: tunnel,
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
				Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
			},
		},
		&networkingv1.NetworkPolicy{
			ObjectMeta: describe("allow-from-seed", "Labelled pods may be reached by the API server, through the tunnel."),
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: allowed(labelFromSeed),
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
				Ingress: []networkingv1.NetworkPolicyIngressRule{
					{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &tunnel}}},
				},
			},
		},
		out("allow-to-dns", "Labelled pods may query the cluster's DNS servers.", resourcesv1alpha1.LabelNetworkPolicyToDNS,
			toDNS),
		out("allow-to-apiserver",
			"Labelled pods may reach the API server, whose address they may query from the DNS servers of the node.",
			labelToAPIServer, everywhere(tcp(443), udp(53), tcp(53))),
		out("allow-to-kubelet", "Labelled pods may reach kubelets.", labelToKubelet, everywhere(tcp(kubeletPort))),
		out("allow-to-public-networks", "Labelled pods may reach public addresses.",
			resourcesv1alpha1.LabelNetworkPolicyToPublicNetworks, public),
	}
}

func describe(name, text string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: "gardener.cloud--" + name,
		Annotations: map[string]string{resourcesv1alpha1.AnnotationDescription: text},
	}
}

func allowed(label string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{label: resourcesv1alpha1.NetworkPolicyAllowed}}
}

func out(name, text, label string, rule networkingv1.NetworkPolicyEgressRule) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: describe(name, text),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: allowed(label), Egress: []networkingv1.NetworkPolicyEgressRule{rule},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		},
	}
}

func tcp(port int32) networkingv1.NetworkPolicyPort { return policyPort(corev1.ProtocolTCP, port) }

func udp(port int32) networkingv1.NetworkPolicyPort { return policyPort(corev1.ProtocolUDP, port) }

func policyPort(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(port))}
}
