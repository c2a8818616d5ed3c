package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// pod is a Pod that takes part in policies, with the IPv4 addresses that are its own.
type pod struct {
	*corev1.Pod
	addresses []netip.Addr
	certain   bool // The addresses come from the container runtime.
}

// cluster finds the pods that a policy or a peer selects.
type cluster struct {
	node       string
	pods       map[string][]*pod       // By namespace.
	namespaces map[string]labels.Set   // Labels by name.
	members    map[string][]netip.Addr // Addresses by the text of a term.
}

func newCluster(o Observed) *cluster {
	c := &cluster{
		node: o.Node, pods: map[string][]*pod{}, namespaces: make(map[string]labels.Set, len(o.Namespaces)),
		members: map[string][]netip.Addr{},
	}
	for i := range o.Namespaces {
		c.namespaces[o.Namespaces[i].Name] = o.Namespaces[i].Labels
	}
	sandboxes := make(map[types.NamespacedName]*hook.Sandbox, len(o.Sandboxes))
	for i := range o.Sandboxes {
		sandboxes[types.NamespacedName{Namespace: o.Sandboxes[i].Namespace, Name: o.Sandboxes[i].Name}] = &o.Sandboxes[i]
	}
	owners := make(map[netip.Addr]*pod, len(o.Pods))
	for i := range o.Pods {
		if !takesPart(&o.Pods[i]) {
			continue
		}
		p := &pod{Pod: &o.Pods[i]}
		addresses := addressesOf(p.Pod)
		if s := sandboxes[client.ObjectKeyFromObject(p.Pod)]; s != nil && matches(*s, p.Pod) {
			p.certain, addresses = true, ipv4(s.Addresses)
		}
		for _, a := range addresses {
			if owner := owners[a]; owner == nil || p.outranks(owner) {
				owners[a] = p
			}
		}
	}
	for a, p := range owners {
		if p.addresses == nil {
			c.pods[p.Namespace] = append(c.pods[p.Namespace], p)
		}
		p.addresses = append(p.addresses, a)
	}
	return c
}

// takesPart reports whether a Pod has a network of its own that is or will be in use.
func takesPart(p *corev1.Pod) bool {
	return !p.Spec.HostNetwork && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func addressesOf(p *corev1.Pod) []netip.Addr {
	var out []netip.Addr
	add := func(ip string) {
		if a, err := netip.ParseAddr(ip); err == nil && a.Is4() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	add(p.Status.PodIP)
	for _, ip := range p.Status.PodIPs {
		add(ip.IP)
	}
	return out
}

// ipv4 returns the distinct addresses of IPv4.
func ipv4(addresses []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addresses {
		if a.Is4() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// outranks reports which of two Pods has an address that both claim. A Pod that is being deleted, or whose node is
// lost, keeps its address in its status while another may have got it.
func (p *pod) outranks(other *pod) bool {
	a, b := p.Pod, other.Pod
	if p.certain != other.certain {
		return p.certain
	}
	if (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) {
		return a.DeletionTimestamp == nil
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name)) > 0
}

// selected returns the pods of the node that the policy selects.
func (c *cluster) selected(p *networkingv1.NetworkPolicy, node string) []*pod {
	candidates := c.pods[p.Namespace]
	if len(candidates) == 0 {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
	if err != nil {
		return nil
	}
	var out []*pod
	for _, candidate := range candidates {
		if candidate.Spec.NodeName == node && selector.Matches(labels.Set(candidate.Labels)) {
			out = append(out, candidate)
		}
	}
	return out
}

// term selects pods by namespace and labels.
type term struct {
	text       string          // Equal for equal selections.
	namespace  string          // Name of the namespace, if namespaces is nil.
	namespaces labels.Selector // Labels of namespaces.
	pods       labels.Selector // Labels of pods.
}

// newTerm returns the selection of a peer that is no block, in a policy of the namespace.
func newTerm(namespace string, peer *networkingv1.NetworkPolicyPeer) (term, bool) {
	if peer.PodSelector == nil && peer.NamespaceSelector == nil {
		return term{}, false
	}
	t := term{namespace: namespace, pods: labels.Everything()}
	where, which := "namespace "+namespace, "all"
	var err error
	if peer.NamespaceSelector != nil {
		if t.namespaces, err = metav1.LabelSelectorAsSelector(peer.NamespaceSelector); err != nil {
			return term{}, false
		}
		where = "namespaces " + selectorText(t.namespaces)
	}
	if peer.PodSelector != nil {
		if t.pods, err = metav1.LabelSelectorAsSelector(peer.PodSelector); err != nil {
			return term{}, false
		}
		which = selectorText(t.pods)
	}
	t.text = "pods " + which + " in " + where
	return t, true
}

// selectorText is the same for selectors with the same requirements in another order.
func selectorText(s labels.Selector) string {
	requirements, _ := s.Requirements()
	if len(requirements) == 0 {
		return "all"
	}
	texts := make([]string, len(requirements))
	for i := range requirements {
		texts[i] = requirements[i].String()
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

// addresses returns the addresses of the pods that any of the terms selects, sorted.
func (c *cluster) addresses(terms []term) []Element {
	var out []Element
	for _, t := range terms {
		for _, a := range c.addressesOf(t) {
			out = append(out, Element{Address: a})
		}
	}
	slices.SortFunc(out, Element.compare)
	return slices.Compact(out)
}

// known returns the addresses of all pods, sorted.
func (c *cluster) known() []Element {
	var out []Element
	for _, pods := range c.pods {
		for _, p := range pods {
			for _, a := range p.addresses {
				out = append(out, Element{Address: a})
			}
		}
	}
	slices.SortFunc(out, Element.compare)
	return out
}

func (c *cluster) addressesOf(t term) []netip.Addr {
	if known, ok := c.members[t.text]; ok {
		return known
	}
	var out []netip.Addr
	collect := func(namespace string) {
		for _, p := range c.pods[namespace] {
			if t.pods.Matches(labels.Set(p.Labels)) {
				out = append(out, p.addresses...)
			}
		}
	}
	if t.namespaces == nil {
		collect(t.namespace)
	} else {
		for name, set := range c.namespaces {
			if t.namespaces.Matches(set) {
				collect(name)
			}
		}
	}
	c.members[t.text] = out
	return out
}

// services returns the ports with the name and protocol, of pods of the node or, if it is empty, of all pods.
func (c *cluster) services(node, name string, protocol Protocol) []Element {
	var out []Element
	for _, pods := range c.pods {
		for _, p := range pods {
			if node != "" && p.Spec.NodeName != node {
				continue
			}
			for _, port := range namedPorts(p.Pod) {
				if number, ok := protocolOf(&port.Protocol); !ok || number != protocol || port.Name != name {
					continue
				}
				for _, a := range p.addresses {
					out = append(out, Element{Address: a, Protocol: protocol, Port: uint16(port.ContainerPort)})
				}
			}
		}
	}
	slices.SortFunc(out, Element.compare)
	return slices.Compact(out)
}

// namedPorts returns the ports with a name of containers and of sidecars, which are init containers that keep running.
func namedPorts(p *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.Name != "" {
				out = append(out, port)
			}
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return out
}
