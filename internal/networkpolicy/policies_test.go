package networkpolicy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/golden"
)

func namespace(name, role string, labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelMetadataName: name},
	}}
	if role != "" {
		ns.Labels["gardener.cloud/role"] = role
	}
	for _, l := range labels {
		ns.Labels[l] = "true"
	}
	return ns
}

func service(ns, name string, annotations map[string]string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: ports},
	}
}

var networks = Networks{
	Cluster: []netip.Prefix{
		netip.MustParsePrefix("10.10.0.0/16"), netip.MustParsePrefix("10.11.0.0/16"),
		netip.MustParsePrefix("172.16.5.0/24"),
	},
	Blocked: []netip.Prefix{
		netip.MustParsePrefix("192.168.7.1/32"), netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("192.168.7.1/32"),
	},
	API: []netip.AddrPort{netip.MustParseAddrPort("172.16.5.2:6443"), netip.MustParseAddrPort("10.11.0.1:443")},
}

func objects(policies []*networkingv1.NetworkPolicy) []client.Object {
	var out []client.Object
	for _, p := range policies {
		out = append(out, p)
	}
	return out
}

func TestGeneral(t *testing.T) {
	golden.Objects(t, "general", objects(General(namespace("shoot--dev--a", "shoot", LabelIsolated), networks))...)
}

func TestNoRuleAllowsEverything(t *testing.T) {
	for name, n := range map[string]Networks{
		"nothing is known":                {},
		"all private ranges are excluded": {Cluster: private, Blocked: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
	} {
		for _, p := range General(namespace("garden", "garden"), n) {
			for _, rule := range p.Spec.Egress {
				if len(rule.To) == 0 {
					t.Errorf("%s: policy %s allows pods to reach everything", name, p.Name)
				}
			}
		}
	}
}

func TestOldControlPlanesAreNotCutOff(t *testing.T) {
	denies := func(ns *corev1.Namespace) bool {
		for _, p := range General(ns, networks) {
			if p.Name == DenyAll {
				return true
			}
		}
		return false
	}
	for _, c := range []struct {
		ns   *corev1.Namespace
		want bool
	}{
		{namespace("shoot--dev--a", "shoot"), false},
		{namespace("shoot--dev--a", "shoot", LabelIsolated), true},
		{namespace("garden", "garden"), true},
		{namespace("extension-a", "extension"), true},
		{namespace("hortus-gateway", "istio-ingress"), true},
	} {
		if got := denies(c.ns); got != c.want {
			t.Errorf("namespace with labels %v denies by default: %v, want %v", c.ns.Labels, got, c.want)
		}
	}
}

func TestOfService(t *testing.T) {
	all := []*corev1.Namespace{
		namespace("shoot--dev--a", "shoot", LabelIsolated), namespace("shoot--dev--b", "shoot", LabelIsolated),
		namespace("garden", "garden"), namespace("extension-a", "extension"),
	}
	port := func(number int32, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Port: number, TargetPort: target}
	}
	for name, s := range map[string]*corev1.Service{
		"own-namespace": service(
			"shoot--dev--a", "db", nil, port(5432, intstr.IntOrString{}), port(80, intstr.FromString("http")),
			port(81, intstr.FromString("http")),
		),
		"other-namespaces": service("shoot--dev--a", "db", map[string]string{
			resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors: `[{"matchLabels":{"gardener.cloud/role":"garden"}},` +
				`{"matchLabels":{"kubernetes.io/metadata.name":"extension-a"}}]`,
		}, port(5432, intstr.IntOrString{})),
		"alias": service("shoot--dev--a", "db", map[string]string{
			resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors: `[{"matchLabels":{"gardener.cloud/role":"garden"}}]`,
			resourcesv1alpha1.AnnotationNetworkPolicyNamespaceAlias:     "all-shoots",
		}, port(5432, intstr.IntOrString{})),
		"groups": service("extension-a", "hook", map[string]string{
			resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors:                  `[{"matchLabels":{"gardener.cloud/role":"shoot"}}]`,
			resourcesv1alpha1.AnnotationNetworkPolicyNamespaceAlias:                      "extensions",
			"networking.resources.gardener.cloud/from-all-webhook-targets-allowed-ports": `[{"port":10250}]`,
			"networking.resources.gardener.cloud/from-world-to-ports":                    `[{"protocol":"UDP","port":"dns"}]`,
		}, port(443, intstr.FromInt32(10250))),
	} {
		t.Run(name, func(t *testing.T) {
			policies, err := OfService(s, all)
			if err != nil {
				t.Fatal(err)
			}
			golden.Objects(t, name, objects(policies)...)
		})
	}
}

func TestWhatCannotBeReadIsReportedAndTheRestHolds(t *testing.T) {
	s := service("garden", "db", map[string]string{
		resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors:                 `[{"matchExpressions":[{"key":"a","operator":"Is"}]}]`,
		resourcesv1alpha1.AnnotationNetworkPolicyFromWorldToPorts:                   `443`,
		"networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports": `[{"protocol":"TCP"}]`,
	}, corev1.ServicePort{Port: 5432}, corev1.ServicePort{Port: 1, TargetPort: intstr.FromString("UPPER")})
	policies, err := OfService(s, nil)
	if len(policies) != 2 {
		t.Errorf("there are %d policies, want the two of the valid port", len(policies))
	}
	for _, text := range []string{"namespace-selectors", "from-world-to-ports", "entry 0 has no port", "UPPER"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("OfService() reports %v, want it to name %q", err, text)
		}
	}
}

func TestServicesWithoutPodsHaveNoPolicies(t *testing.T) {
	outside := service("garden", "a", nil, corev1.ServicePort{Port: 1})
	ending := service("garden", "a", nil, corev1.ServicePort{Port: 1})
	outside.Spec.Selector, ending.DeletionTimestamp = nil, ptr.To(metav1.Now())
	for _, s := range []*corev1.Service{outside, ending} {
		if policies, err := OfService(s, nil); len(policies) > 0 || err != nil {
			t.Errorf("OfService() = %d policies, %v; want none", len(policies), err)
		}
	}
}

// TestEveryWayHasBothEnds makes random clusters: every connection that is allowed on the side of a Service is allowed
// on the side of labelled clients, and vice versa; all policies are in managed namespaces, and their names differ.
func TestEveryWayHasBothEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	roles := []string{"garden", "shoot", "extension", "istio-ingress", "", "project"}
	for range 300 {
		var namespaces []*corev1.Namespace
		for i := range 5 {
			namespaces = append(namespaces, namespace(fmt.Sprintf("ns-%d", i), roles[r.IntN(len(roles))]))
		}
		var services []*corev1.Service
		for i := range 6 {
			annotations := map[string]string{}
			if r.IntN(2) == 0 {
				annotations[resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors] = fmt.Sprintf(
					`[{"matchLabels":{"gardener.cloud/role":%q}}]`, roles[r.IntN(4)],
				)
			}
			if r.IntN(2) == 0 {
				annotations[resourcesv1alpha1.AnnotationNetworkPolicyNamespaceAlias] = "all-shoots"
			}
			if r.IntN(3) == 0 {
				annotations["networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports"] = `[{"port":8080}]`
			}
			port := corev1.ServicePort{Port: int32(1 + r.IntN(3))}
			services = append(services, service(namespaces[r.IntN(5)].Name, fmt.Sprintf("svc-%d", i%4), annotations, port))
		}
		in, out := map[string]int{}, map[string]int{}
		for _, ns := range namespaces {
			policies, err := Desired(ns.Name, namespaces, services, networks)
			if err != nil {
				t.Fatal(err)
			}
			if !Managed(ns) && len(policies) > 0 {
				t.Fatalf("namespace %s is not managed but has %d policies", ns.Name, len(policies))
			}
			for _, p := range policies {
				if !strings.Contains(p.Name, "gress-to-") {
					continue
				}
				ends(p, in, out)
			}
		}
		for way, n := range in {
			if out[way] != n {
				t.Fatalf("%s is allowed %d times for ingress, but %d times for egress", way, n, out[way])
			}
		}
		if len(in) != len(out) {
			t.Fatalf("ways in: %v, out: %v", in, out)
		}
	}
}

// ends counts the connections that a policy allows: client namespace and label, server namespace and pods, ports.
func ends(p *networkingv1.NetworkPolicy, in, out map[string]int) {
	where := func(peer networkingv1.NetworkPolicyPeer) string {
		if peer.NamespaceSelector == nil {
			return p.Namespace
		}
		return peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]
	}
	for _, rule := range p.Spec.Ingress {
		for _, peer := range rule.From {
			in[fmt.Sprint(where(peer), peer.PodSelector.MatchLabels, p.Namespace, p.Spec.PodSelector.MatchLabels,
				rule.Ports[0].Port)]++
		}
	}
	for _, rule := range p.Spec.Egress {
		for _, peer := range rule.To {
			out[fmt.Sprint(p.Namespace, p.Spec.PodSelector.MatchLabels, where(peer), peer.PodSelector.MatchLabels,
				rule.Ports[0].Port)]++
		}
	}
}
