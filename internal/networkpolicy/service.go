package networkpolicy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// fromEverywhere stands for clients that need no label in the name of the policy.
const fromEverywhere = "world"

// OfService returns the policies that allow connections to a Service of a managed namespace, in its own namespace and
// in those of its clients, ordered by namespace and name. namespaces are all managed ones. Invalid annotations are left
// out and reported; the others still apply.
func OfService(s *corev1.Service, namespaces []*corev1.Namespace) ([]*networkingv1.NetworkPolicy, error) {
	if len(s.Spec.Selector) == 0 || s.DeletionTimestamp != nil {
		return nil, nil
	}
	b := &builder{service: s, pods: metav1.LabelSelector{MatchLabels: s.Spec.Selector}}
	clients, err := clientNamespaces(s, namespaces)
	b.note(err)
	for _, p := range servicePorts(s) {
		b.way(p, clients)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		group, ok := groupOf(key)
		if !ok {
			continue
		}
		open, err := annotatedPorts(s, key)
		b.note(err)
		if len(open) > 0 {
			b.group(group, open, clients)
		}
	}
	open, err := annotatedPorts(s, resourcesv1alpha1.AnnotationNetworkPolicyFromWorldToPorts)
	b.note(err)
	if len(open) > 0 {
		b.add(b.ingress("ingress-to-"+s.Name+"-from-"+fromEverywhere, "Lets everybody reach "+b.target(), open, nil))
	}
	slices.SortFunc(b.policies, func(x, y *networkingv1.NetworkPolicy) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return b.policies, errors.Join(b.errs...)
}

// ClientNamespaces returns the names of those namespaces, besides its own, whose pods may reach the Service, in order.
func ClientNamespaces(s *corev1.Service, namespaces []*corev1.Namespace) []string {
	names, err := clientNamespaces(s, namespaces)
	if err != nil {
		return nil // OfService reports it.
	}
	return names
}

// builder collects the policies of one Service.
type builder struct {
	service  *corev1.Service
	pods     metav1.LabelSelector // Behind the Service.
	policies []*networkingv1.NetworkPolicy
	errs     []error
}

func (b *builder) note(err error) {
	if err != nil {
		b.errs = append(b.errs, err)
	}
}

func (b *builder) add(p *networkingv1.NetworkPolicy) {
	if problems := validation.IsDNS1123Subdomain(p.Name); len(problems) > 0 {
		b.note(fmt.Errorf("name of NetworkPolicy %q: %s", p.Name, strings.Join(problems, ", ")))
		return
	}
	b.policies = append(b.policies, p)
}

// target names the Service in descriptions.
func (b *builder) target() string {
	return "Service " + b.service.Namespace + "/" + b.service.Name + "."
}

// way opens a port of the Service to pods with its label, in its namespace and in those of its clients.
func (b *builder) way(p podPort, clients []string) {
	name := b.service.Name + "-" + p.suffix()
	open := []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(p.protocol), Port: ptr.To(p.port)}}
	label := resourcesv1alpha1.NetworkPolicyToService(b.service.Name, p.lower(), p.port.String())
	b.open(label, "ingress-to-"+name, "egress-to-"+name, open, b.service.Namespace)
	alias := cmp.Or(b.service.Annotations[resourcesv1alpha1.AnnotationNetworkPolicyNamespaceAlias], b.service.Namespace)
	label = resourcesv1alpha1.NetworkPolicyToServiceOf(alias, b.service.Name, p.lower(), p.port.String())
	for _, ns := range clients {
		b.open(label, "ingress-to-"+name+"-from-"+ns, "egress-to-"+b.service.Namespace+"-"+name, open, ns)
	}
}

// group opens ports to pods with the label of a group of targets.
func (b *builder) group(group string, open []networkingv1.NetworkPolicyPort, clients []string) {
	label := resourcesv1alpha1.NetworkPolicyToGroup(group)
	b.open(label, "ingress-to-"+b.service.Name+"-from-"+group, "egress-to-"+b.service.Name+"-from-"+group, open,
		b.service.Namespace)
	if alias := b.service.Annotations[resourcesv1alpha1.AnnotationNetworkPolicyNamespaceAlias]; alias != "" {
		label = resourcesv1alpha1.NetworkPolicyToGroup(alias + "-" + group)
	}
	for _, ns := range clients {
		b.open(label, "ingress-to-"+b.service.Name+"-from-"+ns+"-"+group,
			"egress-to-"+b.service.Namespace+"-"+b.service.Name+"-from-"+group, open, ns)
	}
}

// open adds the policies for both ends: ingress to the Service's pods, and egress from the clients' namespace.
func (b *builder) open(
	label, ingressName, egressName string, open []networkingv1.NetworkPolicyPort, clientNamespace string,
) {
	if problems := validation.IsQualifiedName(label); len(problems) > 0 {
		b.note(fmt.Errorf("label %q of clients in namespace %s: %s", label, clientNamespace, strings.Join(problems, ", ")))
		return
	}
	client := networkingv1.NetworkPolicyPeer{PodSelector: ptr.To(labelled(label))}
	server := networkingv1.NetworkPolicyPeer{PodSelector: ptr.To(b.pods)}
	if clientNamespace != b.service.Namespace {
		client.NamespaceSelector, server.NamespaceSelector = named(clientNamespace), named(b.service.Namespace)
	}
	b.add(b.ingress(ingressName, "Lets labelled pods of "+clientNamespace+" reach "+b.target(), open,
		[]networkingv1.NetworkPolicyPeer{client}))
	b.add(egress(clientNamespace, egressName, label, "Lets labelled pods reach "+b.target(),
		networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{server}, Ports: open}))
}

// ingress allows peers, or all clients, to reach ports of the Service's pods.
func (b *builder) ingress(
	name, description string, open []networkingv1.NetworkPolicyPort, from []networkingv1.NetworkPolicyPeer,
) *networkingv1.NetworkPolicy {
	return policy(b.service.Namespace, name, description, networkingv1.NetworkPolicySpec{
		PodSelector: b.pods, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: from, Ports: open}},
	})
}

// podPort is a port of the pods behind a Service.
type podPort struct {
	protocol corev1.Protocol
	port     intstr.IntOrString
}

func (p podPort) lower() string { return strings.ToLower(string(p.protocol)) }

// suffix returns the name of the port in names of policies.
func (p podPort) suffix() string { return p.lower() + "-" + p.port.String() }

// servicePorts returns the distinct ports of the pods, in order.
func servicePorts(s *corev1.Service) []podPort {
	var out []podPort
	for _, p := range s.Spec.Ports {
		target := p.TargetPort
		if target == (intstr.IntOrString{}) {
			target = intstr.FromInt32(p.Port)
		}
		out = append(out, podPort{cmp.Or(p.Protocol, corev1.ProtocolTCP), target})
	}
	return sorted(out, func(a, b podPort) int { return cmp.Compare(a.suffix(), b.suffix()) })
}

// annotatedPorts reads a list of ports from an annotation.
func annotatedPorts(s *corev1.Service, key string) ([]networkingv1.NetworkPolicyPort, error) {
	value, ok := s.Annotations[key]
	if !ok {
		return nil, nil
	}
	var out []networkingv1.NetworkPolicyPort
	if err := json.Unmarshal([]byte(value), &out); err != nil {
		return nil, fmt.Errorf("annotation %s of Service %s/%s is not a JSON list of ports: %w", key, s.Namespace, s.Name, err)
	}
	for i := range out {
		if out[i].Port == nil {
			return nil, fmt.Errorf("annotation %s of Service %s/%s: entry %d has no port", key, s.Namespace, s.Name, i)
		}
		out[i].Protocol = ptr.To(cmp.Or(ptr.Deref(out[i].Protocol, ""), corev1.ProtocolTCP))
	}
	return out, nil
}

// groupOf returns the group of targets that an annotation names.
func groupOf(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, resourcesv1alpha1.AnnotationNetworkPolicyFromPrefix)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, resourcesv1alpha1.AnnotationNetworkPolicyFromSuffix)
}

// clientNamespaces returns the names of other namespaces that the Service's annotation selects, in order.
func clientNamespaces(s *corev1.Service, namespaces []*corev1.Namespace) ([]string, error) {
	value, ok := s.Annotations[resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors]
	if !ok {
		return nil, nil
	}
	invalid := func(err error) error {
		return fmt.Errorf("annotation %s of Service %s/%s is not a JSON list of label selectors: %w",
			resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors, s.Namespace, s.Name, err)
	}
	var selectors []metav1.LabelSelector
	if err := json.Unmarshal([]byte(value), &selectors); err != nil {
		return nil, invalid(err)
	}
	var out []string
	for i := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(&selectors[i])
		if err != nil {
			return nil, invalid(err)
		}
		for _, ns := range namespaces {
			if ns.Name != s.Namespace && selector.Matches(labels.Set(ns.Labels)) {
				out = append(out, ns.Name)
			}
		}
	}
	return sorted(out, strings.Compare), nil
}

func sortByName(policies []*networkingv1.NetworkPolicy) {
	slices.SortFunc(policies, func(a, b *networkingv1.NetworkPolicy) int { return cmp.Compare(a.Name, b.Name) })
}
