package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// Observed is the input from which a node's rules are computed. Nothing in it is changed.
type Observed struct {
	Node       string // Name of the own Node.
	Pods       []corev1.Pod
	Namespaces []corev1.Namespace
	Policies   []networkingv1.NetworkPolicy
	Refused    []netip.Prefix // IPv4 networks to which the node forwards nothing, whatever policies say.
	// Sandboxes are the networks of pods of the own node that the container runtime has reported. They count instead of
	// the addresses in the status of their Pods, and against every other Pod with such an address. At most one per Pod.
	Sandboxes []hook.Sandbox
}

// matches reports whether the sandbox belongs to the Pod. For a static pod the kubelet has another UID than the API
// server, and only one pod of that name.
func matches(s hook.Sandbox, p *corev1.Pod) bool {
	_, isMirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	return s.Namespace == p.Namespace && s.Name == p.Name && (s.UID == "" || s.UID == string(p.UID) || isMirror)
}

// direction of packets, seen from a pod.
type direction int

const (
	egress direction = iota
	ingress
)

// Decide computes the rules of the node called o.Node.
//
// Pods with hostNetwork, without an IPv4 address, and in phase Succeeded or Failed are left out, both as subjects and
// as peers. If several Pods claim an address, the one with the sandbox has it, otherwise the one that is not being
// deleted and was created last. What the API server does not accept, such as selectors and ranges that do not parse,
// matches nothing. The order of objects does not matter.
func Decide(o Observed) Ruleset {
	d := &decision{cluster: newCluster(o), sets: map[string]func() Set{}}
	selecting := map[*pod]*[2][]int{} // Indexes into policies, by direction.
	policies := make([]compiled, len(o.Policies))
	for i := range o.Policies {
		policies[i].policy = &o.Policies[i]
		for _, p := range d.cluster.selected(&o.Policies[i], o.Node) {
			if selecting[p] == nil {
				selecting[p] = &[2][]int{}
			}
			for _, dir := range directions(&o.Policies[i]) {
				selecting[p][dir] = append(selecting[p][dir], i)
			}
		}
	}

	var jumps [2][]Jump
	var chains []Chain
	var self []Element
	known := map[string]bool{}   // Names of chains.
	names := map[string]string{} // Of chains, by signature.
	for p, selectedBy := range selecting {
		for dir, indexes := range selectedBy {
			if len(indexes) == 0 {
				continue
			}
			signature := signatureOf(direction(dir), indexes)
			name, ok := names[signature]
			if !ok {
				chain := d.chain(direction(dir), indexes, policies)
				name = chain.Name
				names[signature] = name
				if !known[name] { // Policies with equal rules make one chain.
					known[name] = true
					chains = append(chains, chain)
				}
			}
			for _, a := range p.addresses {
				jumps[dir] = append(jumps[dir], Jump{Address: a, Chain: name})
			}
		}
		for _, a := range p.addresses {
			self = append(self, Element{Address: a, Last: a})
		}
	}
	for dir := range jumps {
		slices.SortFunc(jumps[dir], Jump.compare)
	}
	slices.SortFunc(self, Element.compare)
	chains = append(chains, baseChains(o.Refused)...)
	slices.SortFunc(chains, compareChains)
	return Ruleset{
		Sets: append(d.usedSets(chains), Set{
			Name: setSelf, Comment: "pods of this node that policies select, to themselves", Kind: Pairs, Elements: self,
		}),
		Maps:   []Map{{Name: mapEgress, Elements: jumps[egress]}, {Name: mapIngress, Elements: jumps[ingress]}},
		Chains: chains,
	}
}

// baseChains returns the chains that see packets first. They depend on the refused networks only.
//
// Services of the node itself at an address of a refused network stay reachable: such packets are not forwarded.
func baseChains(refused []netip.Prefix) []Chain {
	allowed := Rule{Matches: []Match{{Kind: Established}}, Verdict: Accept}
	self := Rule{Matches: []Match{{Kind: InPairs, Set: setSelf}}, Verdict: Accept}
	toEgress := Rule{Verdict: ToChainOfSource, Map: mapEgress}
	toIngress := Rule{Verdict: ToChainOfDestination, Map: mapIngress}

	out := Chain{Name: "forward-egress", Hook: ForwardEgress, Rules: []Rule{allowed}}
	for _, prefix := range refused {
		out.Rules = append(out.Rules, Rule{
			Matches: []Match{{Kind: ToPrefix, Prefix: prefix.Masked()}}, Counter: counterEgress, Verdict: Reject,
		})
	}
	out.Rules = append(out.Rules, self, toEgress)
	return []Chain{
		out,
		{Name: "forward-ingress", Hook: ForwardIngress, Rules: []Rule{allowed, self, toIngress}},
		{Name: "input-egress", Hook: Input, Rules: []Rule{allowed, toEgress}},
	}
}

// directions returns those in which the policy restricts the pods it selects.
func directions(p *networkingv1.NetworkPolicy) []direction {
	if len(p.Spec.PolicyTypes) == 0 {
		if len(p.Spec.Egress) == 0 {
			return []direction{ingress}
		}
		return []direction{egress, ingress}
	}
	var out []direction
	if slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
		out = append(out, egress)
	}
	if slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		out = append(out, ingress)
	}
	return out
}

func signatureOf(dir direction, indexes []int) string {
	out := strconv.AppendInt(nil, int64(dir), 10)
	for _, i := range indexes {
		out = strconv.AppendInt(append(out, ' '), int64(i), 10)
	}
	return string(out)
}

// decision collects the sets that rules refer to while the rules are made.
type decision struct {
	cluster *cluster
	sets    map[string]func() Set // By name. Elements are computed only for sets that are used in the end.
}

// compiled is a policy with its rules, which are made when the first pod needs them.
type compiled struct {
	policy *networkingv1.NetworkPolicy
	rules  [2]map[string]Rule // By direction and text; nil: not made yet.
}

// chain returns the chain of the pods that the policies with the indexes select. Its name is made of its rules.
func (d *decision) chain(dir direction, indexes []int, policies []compiled) Chain {
	union := map[string]Rule{}
	for _, i := range indexes {
		if policies[i].rules[dir] == nil {
			policies[i].rules[dir] = d.rules(dir, policies[i].policy)
		}
		maps.Copy(union, policies[i].rules[dir])
	}
	everything := Rule{Verdict: Accept}
	if _, ok := union[everything.String()]; ok {
		return Chain{Name: chainName(dir, everything.String()), Rules: []Rule{everything}}
	}
	texts := slices.Sorted(maps.Keys(union))
	chain := Chain{Name: chainName(dir, strings.Join(texts, "\n"))}
	for _, text := range texts {
		chain.Rules = append(chain.Rules, union[text])
	}
	if dir == egress {
		chain.Rules = append(chain.Rules, Rule{Counter: counterEgress, Verdict: Reject})
		return chain
	}
	// An address that no pod is known to have may be that of a pod that has just started on another node. Its packets are
	// dropped: the client sends them again after a second, when the address is known, and would take a refusal for final.
	known := []Match{{Kind: InSource, Set: d.knownSet()}}
	chain.Rules = append(chain.Rules,
		Rule{Matches: known, Counter: counterIngress, Verdict: Reject}, Rule{Counter: counterIngress, Verdict: Drop})
	return chain
}

func chainName(dir direction, rules string) string {
	if dir == ingress {
		return "ingress-" + checksum(rules)
	}
	return "egress-" + checksum(rules)
}

// checksum is short enough for names, and long enough (80 bits) that nobody finds a text with the checksum of a given
// one.
func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:10])
}

// rules returns what a policy allows in a direction: every combination of peers and ports of each of its rules.
func (d *decision) rules(dir direction, p *networkingv1.NetworkPolicy) map[string]Rule {
	out := map[string]Rule{}
	add := func(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
		for _, peer := range d.peers(dir, p.Namespace, peers) {
			for _, port := range d.ports(dir, ports) {
				rule := Rule{Matches: slices.Concat(peer, port), Verdict: Accept}
				out[rule.String()] = rule
			}
		}
	}
	if dir == egress {
		for _, r := range p.Spec.Egress {
			add(r.To, r.Ports)
		}
	} else {
		for _, r := range p.Spec.Ingress {
			add(r.From, r.Ports)
		}
	}
	return out
}

// peers returns alternatives: one without condition for everything, otherwise at most one for pods and one for blocks.
func (d *decision) peers(dir direction, namespace string, peers []networkingv1.NetworkPolicyPeer) [][]Match {
	if len(peers) == 0 {
		return [][]Match{nil}
	}
	kind := InDestination
	if dir == ingress {
		kind = InSource
	}
	var terms []term
	var spans []span
	for i := range peers {
		if peers[i].IPBlock != nil {
			spans = append(spans, blockSpans(peers[i].IPBlock)...)
		} else if t, ok := newTerm(namespace, &peers[i]); ok {
			terms = append(terms, t)
		}
	}
	var out [][]Match
	if len(terms) > 0 {
		out = append(out, []Match{{Kind: kind, Set: d.peerSet(terms)}})
	}
	if spans = mergeSpans(spans); len(spans) == 1 && spans[0] == (span{0, lastAddress}) {
		return [][]Match{nil}
	}
	if len(spans) > 0 {
		out = append(out, []Match{{Kind: kind, Set: d.rangeSet(spans)}})
	}
	return out
}

// ports returns alternatives: one without condition for all ports, otherwise one per range of numbers and per name.
func (d *decision) ports(dir direction, ports []networkingv1.NetworkPolicyPort) [][]Match {
	if len(ports) == 0 {
		return [][]Match{nil}
	}
	spans := map[Protocol][]span{}
	var out [][]Match
	for _, p := range ports {
		protocol, ok := protocolOf(p.Protocol)
		switch {
		case !ok:
		case p.Port == nil:
			if p.EndPort == nil { // An end without a start is refused by the API server.
				spans[protocol] = append(spans[protocol], span{0, 65535})
			}
		case p.Port.StrVal != "":
			out = append(out, []Match{{Kind: InServices, Set: d.serviceSet(dir, p.Port.StrVal, protocol)}})
		default:
			first, last := p.Port.IntVal, p.Port.IntVal
			if p.EndPort != nil {
				last = *p.EndPort
			}
			if 0 < first && first <= last && last <= 65535 {
				spans[protocol] = append(spans[protocol], span{uint64(first), uint64(last)})
			}
		}
	}
	for protocol, list := range spans {
		for _, s := range mergeSpans(list) {
			out = append(out, []Match{{Kind: ToPorts, Protocol: protocol, First: uint16(s.first), Last: uint16(s.last)}})
		}
	}
	return out
}

func protocolOf(p *corev1.Protocol) (Protocol, bool) {
	if p == nil {
		return TCP, true
	}
	switch *p {
	case corev1.ProtocolTCP, "":
		return TCP, true
	case corev1.ProtocolUDP:
		return UDP, true
	case corev1.ProtocolSCTP:
		return SCTP, true
	}
	return 0, false
}

// peerSet returns the name of the set with the pods that any of the terms selects. Equal selections share a set.
func (d *decision) peerSet(terms []term) string {
	slices.SortFunc(terms, func(a, b term) int { return strings.Compare(a.text, b.text) })
	terms = slices.CompactFunc(terms, func(a, b term) bool { return a.text == b.text })
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = t.text
	}
	text := strings.Join(texts, " or ")
	name := "peers-" + checksum(text)
	d.sets[name] = func() Set {
		return Set{Name: name, Comment: text, Kind: Addresses, Elements: d.cluster.addresses(terms)}
	}
	return name
}

// rangeSet returns the name of the set with the addresses of the spans.
func (d *decision) rangeSet(spans []span) string {
	elements := make([]Element, len(spans))
	var text strings.Builder
	for i, s := range spans {
		elements[i] = Element{Address: numberAddress(s.first), Last: numberAddress(s.last)}
		text.WriteString(elements[i].text(Ranges) + "\n")
	}
	name := "blocks-" + checksum(text.String())
	d.sets[name] = func() Set {
		return Set{Name: name, Comment: "ipBlocks without their exceptions", Kind: Ranges, Elements: elements}
	}
	return name
}

// serviceSet returns the name of the set with the ports of the name: for egress of all pods, for ingress of the pods of
// this node. The policy that selects a pod, or the peer, restricts it to the right pods.
func (d *decision) serviceSet(dir direction, port string, protocol Protocol) string {
	name, node, comment := "egress-port-"+port+"-"+protocol.String(), "", "port "+port+" of all pods"
	if dir == ingress {
		name, node, comment = "ingress-port-"+port+"-"+protocol.String(), d.cluster.node, "port "+port+" of pods of this node"
	}
	d.sets[name] = func() Set {
		return Set{Name: name, Comment: comment, Kind: Services, Elements: d.cluster.services(node, port, protocol)}
	}
	return name
}

// knownSet returns the name of the set with the addresses of all pods.
func (d *decision) knownSet() string {
	d.sets[setKnown] = func() Set {
		return Set{Name: setKnown, Comment: "pods whose addresses are known", Kind: Addresses, Elements: d.cluster.known()}
	}
	return setKnown
}

// usedSets returns the sets that the rules of the chains refer to, sorted by name. The set self is left to the caller.
func (d *decision) usedSets(chains []Chain) []Set {
	used := map[string]bool{}
	for _, c := range chains {
		for _, r := range c.Rules {
			for _, m := range r.Matches {
				used[m.Set] = true
			}
		}
	}
	var out []Set
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if makeSet := d.sets[name]; makeSet != nil {
			out = append(out, makeSet())
		}
	}
	return out
}
