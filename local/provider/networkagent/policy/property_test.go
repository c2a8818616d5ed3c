package policy

import (
	"fmt"
	"math/rand"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// TestRulesetIsWhatPoliciesMean compares the rules with a simple evaluation of the policies, for random clusters.
func TestRulesetIsWhatPoliciesMean(t *testing.T) {
	var allowed, refused, dropped int
	for seed := range int64(400) {
		r := rand.New(rand.NewSource(seed))
		o := randomCluster(r)
		rules := Decide(o)
		for range 200 {
			p := randomPacket(r, o)
			want := means(o, p)
			if got := passes(rules, p); got != want {
				t.Fatalf("seed %d: packet %s passes: %t, want %t\n%s\n%s", seed, p, got, want, describe(o), rules)
			}
			if want {
				allowed++
				continue
			}
			refused++
			forbidden := slices.ContainsFunc(o.Refused, func(prefix netip.Prefix) bool { return prefix.Contains(p.destination) })
			wantFate, reason := Reject, "it comes from a pod or has a blocked destination"
			if meansPod(o, p.source) == nil && !forbidden {
				wantFate, reason = Drop, "it comes from no known pod"
				dropped++
			}
			if got := fate(rules, p); got != wantFate {
				t.Fatalf("seed %d: verdict %d about packet %s, want %d: %s\n%s\n%s", seed, got, p, wantFate, reason, describe(o),
					rules)
			}
		}
	}
	if total := allowed + refused; allowed < total/10 || refused < total/10 || dropped < total/50 {
		t.Errorf("%d packets are allowed, %d refused, %d of them dropped: the clusters cover too little", allowed, refused,
			dropped)
	}
}

// TestOrderDoesNotMatter decides about the same objects in another order.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range int64(50) {
		r := rand.New(rand.NewSource(seed))
		o := randomCluster(r)
		want := Decide(o).String()
		r.Shuffle(len(o.Pods), func(i, j int) { o.Pods[i], o.Pods[j] = o.Pods[j], o.Pods[i] })
		r.Shuffle(len(o.Policies), func(i, j int) { o.Policies[i], o.Policies[j] = o.Policies[j], o.Policies[i] })
		r.Shuffle(len(o.Namespaces), func(i, j int) { o.Namespaces[i], o.Namespaces[j] = o.Namespaces[j], o.Namespaces[i] })
		if diff := cmp.Diff(want, Decide(o).String()); diff != "" {
			t.Fatalf("seed %d: rules in another order of objects (-want +got):\n%s", seed, diff)
		}
	}
}

// TestDiffLeadsToNext applies differences between random rulesets to the former ones.
func TestDiffLeadsToNext(t *testing.T) {
	for seed := range int64(200) {
		r := rand.New(rand.NewSource(seed))
		o := randomCluster(r)
		previous := Decide(o)
		if c := Diff(previous, Decide(o)); !c.Empty() {
			t.Fatalf("seed %d: a change without reason: %+v", seed, c)
		}
		for range 5 {
			mutate(r, &o)
			next := Decide(o)
			got := apply(t, previous, Diff(previous, next))
			if diff := cmp.Diff(next.String(), got.String()); diff != "" {
				t.Fatalf("seed %d: previous with the difference (-want +got):\n%s", seed, diff)
			}
			previous = next
		}
	}
}

// apply makes a change like the kernel, in its order, and rejects what the kernel would reject.
func apply(t *testing.T, r Ruleset, c Change) Ruleset {
	t.Helper()
	sets, chains, jumps := map[string]Set{}, map[string]Chain{}, map[string]map[netip.Addr]string{}
	for _, s := range r.Sets {
		sets[s.Name] = s
	}
	for _, c := range r.Chains {
		chains[c.Name] = c
	}
	for _, m := range r.Maps {
		jumps[m.Name] = map[netip.Addr]string{}
		for _, j := range m.Elements {
			jumps[m.Name][j.Address] = j.Chain
		}
	}
	for _, s := range c.NewSets {
		if _, ok := sets[s.Name]; ok {
			t.Fatalf("set %s exists", s.Name)
		}
		sets[s.Name] = s
	}
	for _, change := range c.Elements {
		s := sets[change.Set]
		if s.Kind == Ranges || s.Kind != change.Kind {
			t.Fatalf("set %s must not change", s.Name)
		}
		elements := slices.Clone(s.Elements)
		for _, e := range change.Removed {
			i := slices.Index(elements, e)
			elements = slices.Delete(elements, i, i+1) // Panics if there is none.
		}
		for _, e := range change.Added {
			if slices.Contains(elements, e) {
				t.Fatalf("set %s has %v", s.Name, e)
			}
			elements = append(elements, e)
		}
		slices.SortFunc(elements, Element.compare)
		s.Elements = elements
		sets[s.Name] = s
	}
	for _, chain := range c.NewChains {
		if _, ok := chains[chain.Name]; ok {
			t.Fatalf("chain %s exists", chain.Name)
		}
		chains[chain.Name] = chain
	}
	for _, chain := range c.ChangedChains {
		chains[chain.Name] = chain
	}
	for _, change := range c.Jumps {
		for _, j := range change.Removed {
			if jumps[change.Map][j.Address] != j.Chain {
				t.Fatalf("map %s has no %v", change.Map, j)
			}
			delete(jumps[change.Map], j.Address)
		}
		for _, j := range change.Added {
			if _, ok := jumps[change.Map][j.Address]; ok {
				t.Fatalf("map %s has %v", change.Map, j)
			}
			jumps[change.Map][j.Address] = j.Chain
		}
	}
	for _, name := range c.RemovedChains {
		for _, m := range jumps {
			for _, chain := range m {
				if chain == name {
					t.Fatalf("chain %s is in use", name)
				}
			}
		}
		delete(chains, name)
	}
	for _, s := range c.RemovedSets {
		for _, chain := range chains {
			for _, rule := range chain.Rules {
				if slices.ContainsFunc(rule.Matches, func(m Match) bool { return m.Set == s.Name }) {
					t.Fatalf("set %s is in use", s.Name)
				}
			}
		}
		delete(sets, s.Name)
	}

	var out Ruleset
	for _, s := range sets {
		out.Sets = append(out.Sets, s)
	}
	for _, c := range chains {
		out.Chains = append(out.Chains, c)
	}
	for name, elements := range jumps {
		m := Map{Name: name}
		for a, chain := range elements {
			m.Elements = append(m.Elements, Jump{Address: a, Chain: chain})
		}
		slices.SortFunc(m.Elements, Jump.compare)
		out.Maps = append(out.Maps, m)
	}
	slices.SortFunc(out.Sets, func(a, b Set) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Maps, func(a, b Map) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Chains, compareChains)
	return out
}

var (
	someValues    = []string{"a", "b", "c"}
	someNames     = []string{"http", "dns", "none"}
	someProtocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	someAddresses = []string{
		"0.0.0.1", "10.0.0.9", "10.9.0.1", "192.168.7.7", "192.168.8.8", "169.254.169.254", "255.255.255.255",
	}
	someBlocks = []string{
		"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/29", "192.168.0.0/16", "192.168.7.7/32", "128.0.0.0/1", "fd00::/8",
	}
)

const nodeAddress = "10.250.0.2"

func pick[T any](r *rand.Rand, list []T) T { return list[r.Intn(len(list))] }

func randomLabels(r *rand.Rand) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"app", "tier"} {
		if r.Intn(4) > 0 {
			out[key] = pick(r, someValues)
		}
	}
	return out
}

func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	key := pick(r, []string{"app", "tier"})
	switch r.Intn(6) {
	case 0:
	case 1, 2:
		s.MatchLabels = map[string]string{key: pick(r, someValues)}
	case 3:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "c"}},
		}
	case 4:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{
			Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b"},
		}}
	case 5:
		operator := pick(r, []metav1.LabelSelectorOperator{metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist})
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: key, Operator: operator}}
	}
	return s
}

func randomPod(r *rand.Rand, i int) corev1.Pod {
	p := newPod(fmt.Sprintf("%s/p%d", pick(r, someValues), i), "", fmt.Sprintf("10.0.0.%d", i+1))
	p.Labels = randomLabels(r)
	if r.Intn(2) == 0 {
		p.Spec.NodeName = "node-2"
	}
	for range r.Intn(3) {
		withPort(pick(r, append(someNames, "")), pick(r, someProtocols), pick(r, []int32{53, 80, 8080}))(&p)
	}
	always := corev1.ContainerRestartPolicyAlways
	withInitPort(pick(r, []*corev1.ContainerRestartPolicy{nil, &always}), pick(r, someNames), 9000)(&p)
	switch r.Intn(12) {
	case 0:
		p.Spec.HostNetwork, p.Status.PodIP, p.Status.PodIPs = true, nodeAddress, []corev1.PodIP{{IP: nodeAddress}}
	case 1:
		p.Status.PodIP, p.Status.PodIPs = "", nil
	case 2:
		p.Status.Phase = pick(r, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed})
	case 3:
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00::1"})
	}
	return p
}

func randomPeers(r *rand.Rand) []networkingv1.NetworkPolicyPeer {
	var out []networkingv1.NetworkPolicyPeer
	for range r.Intn(4) {
		switch r.Intn(5) {
		case 0, 1:
			peer := block(pick(r, someBlocks))
			for range r.Intn(3) {
				peer.IPBlock.Except = append(peer.IPBlock.Except, pick(r, []string{"10.0.0.4/30", "192.168.7.0/24", "10.0.0.0/16"}))
			}
			out = append(out, peer)
		case 2:
			out = append(out, networkingv1.NetworkPolicyPeer{PodSelector: randomSelector(r)})
		case 3:
			out = append(out, networkingv1.NetworkPolicyPeer{NamespaceSelector: randomSelector(r)})
		case 4:
			out = append(out, networkingv1.NetworkPolicyPeer{
				NamespaceSelector: randomSelector(r), PodSelector: randomSelector(r),
			})
		}
	}
	return out
}

func randomPorts(r *rand.Rand) []networkingv1.NetworkPolicyPort {
	var out []networkingv1.NetworkPolicyPort
	for range r.Intn(3) {
		var p networkingv1.NetworkPolicyPort
		if r.Intn(4) > 0 {
			p.Protocol = ptr.To(pick(r, someProtocols))
		}
		switch r.Intn(5) {
		case 0:
		case 1, 2:
			p.Port = ptr.To(intstr.FromString(pick(r, someNames)))
		case 3:
			p.Port = ptr.To(intstr.FromInt32(pick(r, []int32{53, 80})))
		case 4:
			p.Port, p.EndPort = ptr.To(intstr.FromInt32(60)), ptr.To(pick(r, []int32{60, 80, 65535}))
		}
		out = append(out, p)
	}
	return out
}

func randomPolicy(r *rand.Rand, i int) networkingv1.NetworkPolicy {
	p := newPolicy(fmt.Sprintf("%s/n%d", pick(r, someValues), i), "")
	p.Spec.PodSelector = *randomSelector(r)
	for range r.Intn(3) {
		from(randomPeers(r), randomPorts(r))(&p.Spec)
	}
	for range r.Intn(3) {
		to(randomPeers(r), randomPorts(r))(&p.Spec)
	}
	p.Spec.PolicyTypes = pick(r, [][]networkingv1.PolicyType{
		nil, {networkingv1.PolicyTypeIngress}, {networkingv1.PolicyTypeEgress},
		{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	})
	return p
}

func randomCluster(r *rand.Rand) Observed {
	o := Observed{Node: self, Refused: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}}
	for _, name := range someValues {
		if r.Intn(20) > 0 { // A namespace whose object has not arrived yet is selected by nothing.
			o.Namespaces = append(o.Namespaces,
				corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: randomLabels(r)}})
		}
	}
	for i := range 4 + r.Intn(8) {
		o.Pods = append(o.Pods, randomPod(r, i))
	}
	for i := range r.Intn(6) {
		o.Policies = append(o.Policies, randomPolicy(r, i))
	}
	randomSandboxes(r, &o)
	return o
}

// randomSandboxes gives some pods another address than their status has, or one that another pod's status has.
func randomSandboxes(r *rand.Rand, o *Observed) {
	used := map[string]bool{}
	o.Sandboxes = nil
	for i := range o.Pods {
		p := &o.Pods[i]
		ip := fmt.Sprintf("10.0.0.%d", pick(r, []int{i + 1, i + 2, i + 100}))
		if p.Spec.NodeName != o.Node || r.Intn(3) > 0 || used[ip] {
			continue
		}
		used[ip] = true
		s := hook.Sandbox{Namespace: p.Namespace, Name: p.Name, Addresses: []netip.Addr{address("fd00::1"), address(ip)}}
		if r.Intn(6) == 0 {
			s.UID = "another"
		}
		o.Sandboxes = append(o.Sandboxes, s)
	}
}

func mutate(r *rand.Rand, o *Observed) {
	o.Pods, o.Policies = slices.Clone(o.Pods), slices.Clone(o.Policies)
	switch i := r.Intn(len(o.Pods)); r.Intn(6) {
	case 0:
		o.Pods[i] = randomPod(r, i)
	case 1:
		o.Pods[i].Labels = randomLabels(r)
	case 2:
		o.Pods = append(o.Pods, randomPod(r, 100+len(o.Pods)))
	case 3:
		o.Policies = append(o.Policies, randomPolicy(r, 100+len(o.Policies)))
	case 4:
		if len(o.Policies) > 0 {
			o.Policies = slices.Delete(o.Policies, 0, 1)
		}
	case 5:
		randomSandboxes(r, o)
	}
}

func randomPacket(r *rand.Rand, o Observed) packet {
	address := func() netip.Addr {
		if len(o.Sandboxes) > 0 && r.Intn(4) == 0 {
			return pick(r, o.Sandboxes).Addresses[1]
		}
		if i := r.Intn(len(o.Pods) + 3); i < len(o.Pods) && o.Pods[i].Status.PodIP != "" {
			return netip.MustParseAddr(o.Pods[i].Status.PodIP)
		}
		return netip.MustParseAddr(pick(r, someAddresses))
	}
	p := packet{
		source: address(), destination: address(), protocol: pick(r, []Protocol{TCP, TCP, UDP, SCTP, 1}),
		port: pick(r, []uint16{53, 60, 80, 8080, 9000, 65535}),
	}
	if p.protocol == 1 {
		p.port = 0
	}
	if r.Intn(8) == 0 {
		p.toNode, p.destination = true, netip.MustParseAddr(nodeAddress)
	}
	return p
}

// means evaluates the documentation of Kubernetes for the packet, without sets and chains.
func means(o Observed, p packet) bool {
	source, destination := meansPod(o, p.source), meansPod(o, p.destination)
	if !p.toNode {
		for _, refused := range o.Refused {
			if refused.Contains(p.destination) {
				return false
			}
		}
		if source != nil && source == destination {
			return true
		}
	}
	if source != nil && source.Spec.NodeName == o.Node &&
		!meansDirection(o, p, true, source, destination, p.destination, destination) {
		return false
	}
	if p.toNode || destination == nil || destination.Spec.NodeName != o.Node {
		return true
	}
	return meansDirection(o, p, false, destination, source, p.source, destination)
}

// meansPod returns the pod with the address: first by what the container runtime has reported, then by status.
func meansPod(o Observed, a netip.Addr) *corev1.Pod {
	var byStatus *corev1.Pod
	for i := range o.Pods {
		pod := &o.Pods[i]
		if pod.Spec.HostNetwork || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		sandbox := slices.IndexFunc(o.Sandboxes, func(s hook.Sandbox) bool {
			return s.Namespace == pod.Namespace && s.Name == pod.Name && s.UID == ""
		})
		if sandbox >= 0 && slices.Contains(o.Sandboxes[sandbox].Addresses, a) {
			return pod
		}
		if sandbox < 0 && pod.Status.PodIP == a.String() {
			byStatus = pod
		}
	}
	return byStatus
}

// meansDirection judges one direction: subject is selected by policies, peer may be nil, server is the pod with the
// ports.
func meansDirection(
	o Observed, p packet, out bool, subject, peer *corev1.Pod, peerAddress netip.Addr, server *corev1.Pod,
) bool {
	restricted := false
	for _, policy := range o.Policies {
		spec := policy.Spec
		isIngress, isEgress := len(spec.PolicyTypes) == 0, len(spec.PolicyTypes) == 0 && len(spec.Egress) > 0
		for _, t := range spec.PolicyTypes {
			isIngress = isIngress || t == networkingv1.PolicyTypeIngress
			isEgress = isEgress || t == networkingv1.PolicyTypeEgress
		}
		if policy.Namespace != subject.Namespace || !meansSelected(&spec.PodSelector, subject.Labels) ||
			out && !isEgress || !out && !isIngress {
			continue
		}
		restricted = true
		if out {
			for _, rule := range spec.Egress {
				if meansPeers(o, policy.Namespace, rule.To, peer, peerAddress) && meansPorts(rule.Ports, p, server) {
					return true
				}
			}
		} else {
			for _, rule := range spec.Ingress {
				if meansPeers(o, policy.Namespace, rule.From, peer, peerAddress) && meansPorts(rule.Ports, p, server) {
					return true
				}
			}
		}
	}
	return !restricted
}

func meansPeers(
	o Observed, namespace string, peers []networkingv1.NetworkPolicyPeer, pod *corev1.Pod, address netip.Addr,
) bool {
	if len(peers) == 0 {
		return true
	}
	for _, peer := range peers {
		if peer.IPBlock != nil {
			in := netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(address)
			for _, except := range peer.IPBlock.Except {
				in = in && !netip.MustParsePrefix(except).Contains(address)
			}
			if in {
				return true
			}
			continue
		}
		if pod == nil {
			continue
		}
		inNamespace := pod.Namespace == namespace
		if peer.NamespaceSelector != nil {
			inNamespace = false
			for _, n := range o.Namespaces {
				inNamespace = inNamespace || n.Name == pod.Namespace && meansSelected(peer.NamespaceSelector, n.Labels)
			}
		}
		if inNamespace && (peer.PodSelector == nil || meansSelected(peer.PodSelector, pod.Labels)) {
			return true
		}
	}
	return false
}

func meansPorts(ports []networkingv1.NetworkPolicyPort, p packet, server *corev1.Pod) bool {
	if len(ports) == 0 {
		return true
	}
	numbers := map[corev1.Protocol]Protocol{
		"": TCP, corev1.ProtocolTCP: TCP, corev1.ProtocolUDP: UDP, corev1.ProtocolSCTP: SCTP,
	}
	for _, port := range ports {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		if numbers[protocol] != p.protocol {
			continue
		}
		switch {
		case port.Port == nil:
			return true
		case port.Port.Type == intstr.Int:
			end := port.Port.IntVal
			if port.EndPort != nil {
				end = *port.EndPort
			}
			if port.Port.IntVal <= int32(p.port) && int32(p.port) <= end {
				return true
			}
		case server != nil:
			containers := slices.Clone(server.Spec.Containers)
			for _, c := range server.Spec.InitContainers {
				if c.RestartPolicy != nil {
					containers = append(containers, c)
				}
			}
			for _, c := range containers {
				for _, candidate := range c.Ports {
					if candidate.Name == port.Port.StrVal && numbers[candidate.Protocol] == p.protocol &&
						candidate.ContainerPort == int32(p.port) {
						return true
					}
				}
			}
		}
	}
	return false
}

func meansSelected(s *metav1.LabelSelector, labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		value, has := labels[e.Key]
		ok := false
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			ok = has && slices.Contains(e.Values, value)
		case metav1.LabelSelectorOpNotIn:
			ok = !has || !slices.Contains(e.Values, value)
		case metav1.LabelSelectorOpExists:
			ok = has
		case metav1.LabelSelectorOpDoesNotExist:
			ok = !has
		}
		if !ok {
			return false
		}
	}
	return true
}

func describe(o Observed) string {
	var out string
	for _, list := range []any{o.Namespaces, o.Pods, o.Policies, o.Sandboxes} {
		v := reflect.ValueOf(list)
		for i := range v.Len() {
			out += fmt.Sprintf("%+v\n", v.Index(i).Interface())
		}
	}
	return out
}
