package policy

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"hortus.dev/hortus/internal/golden"
)

func address(ip string) netip.Addr { return netip.MustParseAddr(ip) }

const (
	tcp = corev1.ProtocolTCP
	udp = corev1.ProtocolUDP
)

var (
	ingressOnly = policyTypes(networkingv1.PolicyTypeIngress)
	egressOnly  = policyTypes(networkingv1.PolicyTypeEgress)
	bothTypes   = policyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
)

// TestDecide tries packets between four pods: a (10.0.0.1) and b (10.0.0.2) of namespace x, c (10.0.0.3) of namespace
// y, and d (10.1.0.4) of namespace y on another node.
func TestDecide(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	cluster := []corev1.Pod{
		newPod("x/a", "app=a", "10.0.0.1"),
		newPod("x/b", "app=b", "10.0.0.2", withPort("web", tcp, 8080), withPort("web", udp, 8081),
			withInitPort(&always, "side", 9000),
			withInitPort(nil, "setup", 9001)),
		newPod("y/c", "app=c,tier=back", "10.0.0.3"),
		newPod("y/d", "app=d", "10.1.0.4", onNode("node-2"), withPort("web", tcp, 81)),
	}
	addresses := map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3", "d": "10.1.0.4"}

	for name, tc := range map[string]struct {
		pods     []corev1.Pod // In addition to those above.
		policies []networkingv1.NetworkPolicy
		allowed  string // "source destination protocol/port", separated by commas.
		refused  string
	}{
		"without policies all is allowed": {
			allowed: "a b tcp/80, 8.8.8.8 b udp/1, d a tcp/80, b d tcp/80",
		},
		"the metadata service is rejected without policies": {
			refused: "a 169.254.169.254 tcp/80",
		},
		"a policy without rules restricts ingress only": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b")},
			allowed:  "b a tcp/80, b 8.8.8.8 tcp/80, b b tcp/80, c a tcp/80, b node tcp/10250",
			refused:  "a b tcp/80, d b tcp/80, 8.8.8.8 b udp/53",
		},
		"with rules for egress the types are both": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", to(nil, ports{port(tcp, 80)}))},
			allowed:  "b a tcp/80, b 8.8.8.8 tcp/80, b node tcp/80",
			refused:  "a b tcp/80, b a tcp/81, b a udp/80, b node tcp/81",
		},
		"rules of a direction that the types lack do not count": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", ingressOnly, to(nil, ports{port(tcp, 80)}))},
			allowed:  "b a tcp/81",
			refused:  "a b tcp/80",
		},
		"egress alone": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", egressOnly)},
			allowed:  "a b tcp/80, b b tcp/80",
			refused:  "b a tcp/80, b node tcp/80, b 8.8.8.8 udp/53",
		},
		"an empty selector selects all pods of the namespace and no others": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "")},
			allowed:  "a c tcp/80",
			refused:  "a b tcp/80, b a tcp/80, c a tcp/80",
		},
		"an empty rule allows everything": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "", from(nil, nil))},
			allowed:  "a b tcp/80, 8.8.8.8 b icmp/0",
		},
		"policies add up": {
			policies: []networkingv1.NetworkPolicy{
				newPolicy("x/p", "app=b", from(peers{pods("app=a")}, nil)),
				newPolicy("x/q", "", from(peers{namespaces("team=y")}, nil)),
			},
			allowed: "a b tcp/80, c b tcp/80, c a tcp/80, d b tcp/80",
			refused: "b a tcp/80, 8.8.8.8 b tcp/80",
		},
		"both directions must allow": {
			policies: []networkingv1.NetworkPolicy{
				newPolicy("x/p", "app=b", ingressOnly, from(peers{pods("app=a")}, nil)), newPolicy("x/q", "app=a", egressOnly),
			},
			refused: "a b tcp/80",
		},
		"pods of a selector are those of the policy's namespace": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", from(peers{pods("")}, nil))},
			allowed:  "a b tcp/80",
			refused:  "c b tcp/80, d b tcp/80",
		},
		"namespace and pod selector in one peer must both match": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", from(peers{podsIn("team=y", "tier=back")}, nil))},
			allowed:  "c b tcp/80",
			refused:  "a b tcp/80, d b tcp/80",
		},
		"two peers are alternatives": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", from(peers{
				pods("app=a"), namespaces("team=y"), block("8.8.8.0/24"),
			}, nil))},
			allowed: "a b tcp/80, c b tcp/80, d b tcp/80, 8.8.8.8 b tcp/80",
			refused: "8.8.9.8 b tcp/80",
		},
		"blocks with exceptions that overlap": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", to(peers{
				block("0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/30", "255.255.255.255/32", "0.0.0.0/32"),
			}, nil))},
			allowed: "b 8.8.8.8 tcp/80, b 255.255.255.254 tcp/80, b 0.0.0.1 tcp/80",
			refused: "b a tcp/80, b 10.255.255.255 tcp/80, b 255.255.255.255 tcp/80, b 0.0.0.0 tcp/80, b 169.254.1.1 tcp/80",
		},
		"a block of IPv6 is not everything": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", from(peers{block("fd00::/8")}, nil))},
			refused:  "a b tcp/80",
		},
		"a block may contain pods": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", from(peers{block("10.0.0.0/30")}, nil))},
			allowed:  "a b tcp/80, c b tcp/80",
			refused:  "d b tcp/80",
		},
		"ranges and protocols": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", from(nil, ports{
				portRange(tcp, 80, 90), port(tcp, 91), allPorts(corev1.ProtocolSCTP),
			}))},
			allowed: "a b tcp/80, a b tcp/91, a b sctp/7",
			refused: "a b tcp/79, a b tcp/92, a b udp/80, a b icmp/0",
		},
		"named ports of the pod, its sidecars, but not of init containers that end": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", from(nil, ports{
				namedPort(tcp, "web"), namedPort(tcp, "side"), namedPort(tcp, "setup"),
			}))},
			allowed: "a b tcp/8080, a b tcp/9000",
			refused: "a b udp/8081, a b tcp/8081, a b tcp/9001, a b udp/8080",
		},
		"named ports of peers": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=a", egressOnly, to(
				peers{namespaces("team=y"), block("10.0.0.2/32")}, ports{namedPort(tcp, "web")},
			))},
			allowed: "a d tcp/81, a b tcp/8080",
			refused: "a d tcp/8080, a b tcp/81, a c tcp/81",
		},
		"a port name that no pod has": {
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", from(nil, ports{namedPort(tcp, "none")}))},
			refused:  "a b tcp/80",
		},
		"pods without their own address are neither subjects nor peers": {
			pods: []corev1.Pod{
				newPod("x/host", "app=b", "10.250.0.2", hostNetwork),
				newPod("x/done", "app=a", "10.0.0.9", inPhase(corev1.PodSucceeded)),
				newPod("x/failed", "app=a", "10.0.0.8", inPhase(corev1.PodFailed)), newPod("x/new", "app=b", ""),
			},
			policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "app=b", bothTypes, from(peers{pods("")}, nil))},
			allowed:  "a b tcp/80, 10.250.0.2 8.8.8.8 tcp/80, c 10.0.0.9 tcp/80",
			refused:  "10.250.0.2 b tcp/80, 10.0.0.9 b tcp/80, 10.0.0.8 b tcp/80",
		},
		"an address belongs to the pod that is not being deleted": {
			pods: []corev1.Pod{
				newPod("x/old", "app=old", "10.0.0.7", createdAt(9), deleted), newPod("x/new", "app=new", "10.0.0.7", createdAt(5)),
			},
			policies: []networkingv1.NetworkPolicy{
				newPolicy("x/old", "app=old"), newPolicy("x/b", "app=b", from(peers{pods("app=old")}, nil)),
			},
			allowed: "a 10.0.0.7 tcp/80",
			refused: "10.0.0.7 b tcp/80",
		},
		"an address belongs to the pod created last": {
			pods: []corev1.Pod{
				newPod("x/new", "app=new", "10.0.0.7", createdAt(9)), newPod("x/old", "app=old", "10.0.0.7", createdAt(5)),
			},
			policies: []networkingv1.NetworkPolicy{
				newPolicy("x/new", "app=new"), newPolicy("x/b", "app=b", from(peers{pods("app=new")}, nil)),
			},
			allowed: "10.0.0.7 b tcp/80",
			refused: "a 10.0.0.7 tcp/80",
		},
		"pods of other nodes are restricted there": {
			policies: []networkingv1.NetworkPolicy{newPolicy("y/p", "", bothTypes)},
			allowed:  "a d tcp/80, d a tcp/80",
			refused:  "a c tcp/80, c d tcp/80",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := Decide(Observed{
				Node: self, Pods: append(append([]corev1.Pod{}, cluster...), tc.pods...), Policies: tc.policies,
				Namespaces: []corev1.Namespace{newNamespace("x", "team=x"), newNamespace("y", "team=y")},
				Refused:    []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")},
			})
			for want, list := range map[bool]string{true: tc.allowed, false: tc.refused} {
				for text := range strings.SplitSeq(list, ",") {
					if words := strings.Fields(text); len(words) == 3 {
						p := readPacket(t, addresses, words)
						if got := passes(rules, p); got != want {
							t.Errorf("%s passes: %t, want %t; rules:\n%s", text, got, want, rules)
						}
					}
				}
			}
		})
	}
}

func readPacket(t *testing.T, addresses map[string]string, words []string) packet {
	t.Helper()
	of := func(name string) netip.Addr {
		if known, ok := addresses[name]; ok {
			name = known
		}
		return address(name)
	}
	p := packet{source: of(words[0])}
	if words[1] == "node" {
		p.toNode, p.destination = true, address(nodeAddress)
	} else {
		p.destination = of(words[1])
	}
	name, number, _ := strings.Cut(words[2], "/")
	p.protocol = map[string]Protocol{"tcp": TCP, "udp": UDP, "sctp": SCTP, "icmp": 1}[name]
	for _, digit := range number {
		p.port = p.port*10 + uint16(digit-'0')
	}
	return p
}

// TestRulesets has the rules of typical nodes, for review.
func TestRulesets(t *testing.T) {
	namespaceList := []corev1.Namespace{
		newNamespace("shop", "team=shop"), newNamespace("kube-system", "kubernetes.io/metadata.name=kube-system"),
	}
	podList := []corev1.Pod{
		newPod("shop/web-1", "app=web", "10.0.0.11", withPort("http", tcp, 8080)),
		newPod("shop/web-2", "app=web", "10.0.0.12", withPort("http", tcp, 8080)),
		newPod("shop/db", "app=db", "10.0.0.13", withPort("sql", tcp, 5432)),
		newPod("shop/web-3", "app=web", "10.0.1.11", withPort("http", tcp, 8081), onNode("node-2")),
		newPod("kube-system/dns", "k8s-app=dns", "10.0.1.2", onNode("node-2"), withPort("dns", udp, 53)),
	}
	dns := podsIn("kubernetes.io/metadata.name=kube-system", "k8s-app=dns")
	for name, policies := range map[string][]networkingv1.NetworkPolicy{
		"none":     nil,
		"deny-all": {newPolicy("shop/deny", "", bothTypes), newPolicy("kube-system/deny", "", bothTypes)},
		"shop": {
			newPolicy("shop/deny", "", bothTypes),
			newPolicy("shop/dns", "", egressOnly, to(peers{dns}, ports{namedPort(udp, "dns")})),
			newPolicy("shop/db", "app=db", ingressOnly, from(peers{pods("app=web")}, ports{port(tcp, 5432)})),
			newPolicy("shop/web", "app=web", bothTypes, from(nil, ports{namedPort(tcp, "http")}),
				to(peers{pods("app=db")}, ports{port(tcp, 5432)}),
				to(peers{block("0.0.0.0/0", "10.0.0.0/8", "192.168.0.0/16")}, ports{portRange(tcp, 1, 1024), allPorts(udp)})),
		},
		"allow-all": {
			newPolicy("shop/deny", "", bothTypes), newPolicy("shop/allow", "app=web", bothTypes, from(nil, nil), to(nil, nil)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := Decide(Observed{
				Node: self, Pods: podList, Namespaces: namespaceList, Policies: policies,
				Refused: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")},
			})
			golden.Bytes(t, name+".txt", []byte(rules.String()))
		})
	}
}

// TestPodsOfOneKindShareChains counts the chains of many pods.
func TestPodsOfOneKindShareChains(t *testing.T) {
	rules := Decide(manyPods(1000, 1000, 200))
	if got := len(rules.Maps[1].Elements); got != 1000 {
		t.Errorf("%d pods are restricted, want 1000", got)
	}
	if got := len(rules.Chains); got > 2*manyKinds+3 {
		t.Errorf("%d chains for %d kinds of pods", got, manyKinds)
	}
}
