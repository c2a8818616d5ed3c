package policy

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const self = "node-1" // The own node.

// labelsOf parses "a=1,b=2".
func labelsOf(text string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			out[key] = value
		}
	}
	return out
}

type podOption func(*corev1.Pod)

func onNode(name string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
func hostNetwork(p *corev1.Pod)    { p.Spec.HostNetwork = true }
func deleted(p *corev1.Pod)        { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)} }

func createdAt(seconds int64) podOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(seconds, 0) }
}

func inPhase(phase corev1.PodPhase) podOption { return func(p *corev1.Pod) { p.Status.Phase = phase } }

func withPort(name string, protocol corev1.Protocol, number int32) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Ports: []corev1.ContainerPort{{Name: name, Protocol: protocol, ContainerPort: number}},
		})
	}
}

func withInitPort(restart *corev1.ContainerRestartPolicy, name string, number int32) podOption {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
			RestartPolicy: restart, Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number}},
		})
	}
}

// newPod returns a running pod of the own node, called "namespace/name".
func newPod(name, labels, ip string, opts ...podOption) corev1.Pod {
	p := corev1.Pod{Spec: corev1.PodSpec{NodeName: self}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	p.Namespace, p.Name, _ = strings.Cut(name, "/")
	p.Labels = labelsOf(labels)
	if ip != "" {
		p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	for _, opt := range opts {
		opt(&p)
	}
	return p
}

func newNamespace(name, labels string) corev1.Namespace {
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(labels)}}
}

type policyOption func(*networkingv1.NetworkPolicySpec)

// newPolicy returns a policy called "namespace/name" for pods with the labels. Its types are the API server's defaults.
func newPolicy(name, labels string, opts ...policyOption) networkingv1.NetworkPolicy {
	p := networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PodSelector: *selector(labels)}}
	p.Namespace, p.Name, _ = strings.Cut(name, "/")
	for _, opt := range opts {
		opt(&p.Spec)
	}
	return p
}

func policyTypes(types ...networkingv1.PolicyType) policyOption {
	return func(s *networkingv1.NetworkPolicySpec) { s.PolicyTypes = types }
}

type (
	peers = []networkingv1.NetworkPolicyPeer
	ports = []networkingv1.NetworkPolicyPort
)

func from(peers peers, ports ports) policyOption {
	return func(s *networkingv1.NetworkPolicySpec) {
		s.Ingress = append(s.Ingress, networkingv1.NetworkPolicyIngressRule{From: peers, Ports: ports})
	}
}

func to(peers peers, ports ports) policyOption {
	return func(s *networkingv1.NetworkPolicySpec) {
		s.Egress = append(s.Egress, networkingv1.NetworkPolicyEgressRule{To: peers, Ports: ports})
	}
}

func selector(labels string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labelsOf(labels)}
}

func pods(labels string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: selector(labels)}
}

func namespaces(labels string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: selector(labels)}
}

func podsIn(namespaces, pods string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: selector(namespaces), PodSelector: selector(pods)}
}

func block(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func port(protocol corev1.Protocol, number int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromInt32(number))}
}

func portRange(protocol corev1.Protocol, first, last int32) networkingv1.NetworkPolicyPort {
	p := port(protocol, first)
	p.EndPort = &last
	return p
}

func namedPort(protocol corev1.Protocol, name string) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromString(name))}
}

func allPorts(protocol corev1.Protocol) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol}
}
