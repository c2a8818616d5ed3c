package networkpolicy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/kubecontrollermanager"
	"hortus.dev/hortus/internal/component/kubescheduler"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/component/vpnseedserver"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/golden"
	"hortus.dev/hortus/internal/networkpolicy"
	"hortus.dev/hortus/local/provider/cloudcontroller"
)

// pod represents all pods of a workload.
type pod struct {
	namespace, name string
	labels          map[string]string
}

// seed has the pods of a seed with two control planes, an extension and nothing else.
type seed struct {
	namespaces []*corev1.Namespace
	services   []*corev1.Service
	pods       []pod
}

func newSeed(t *testing.T) *seed {
	s := &seed{namespaces: []*corev1.Namespace{
		namespaceOf("garden", "garden"), namespaceOf(gateway.Namespace, corev1beta1.RoleIngress),
		namespaceOf("extension-provider-local", "extension"),
	}}
	s.add(gateway.Render(gateway.Values{Image: "i"})...)
	s.add(resourcemanager.Render(resourcemanager.Values{Namespace: "garden", Class: "seed"})...)
	s.addChart(t, "gardenlet", "garden", map[string]any{"gardenKubeconfig": "x"})
	s.addChart(t, "provider-local", "extension-provider-local", nil)
	for _, name := range []string{"shoot--dev--a", "shoot--dev--b"} {
		ns := namespaceOf(name, "shoot")
		ns.Labels[networkpolicy.LabelIsolated] = "true"
		s.namespaces = append(s.namespaces, ns)
		s.addControlPlane(t, name)
	}
	return s
}

func namespaceOf(name, role string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelMetadataName: name, "gardener.cloud/role": role},
	}}
}

func (s *seed) addControlPlane(t *testing.T, namespace string) {
	apiServer, err := kubeapiserver.Render(kubeapiserver.Values{Namespace: namespace, Workers: true,
		Encryption: encryption.Target{
			Resources: []string{"secrets"}, Writer: encryption.Provider{Cipher: encryption.AESCBC, Key: "k"},
			Keys: map[string]string{"k": "c2VjcmV0"},
		}.Config()})
	if err != nil {
		t.Fatal(err)
	}
	s.add(kubeapiserver.Service(namespace, ""), apiServer.Deployment, etcd.Peers(namespace))
	etcdService, set := etcd.Render(etcd.Values{Namespace: namespace, StorageSize: "1Gi", Backup: &etcd.Backup{}})
	tunnelService, tunnel := vpnseedserver.Render(vpnseedserver.Values{Namespace: namespace, Workers: true})
	_, controllers := kubecontrollermanager.Render(kubecontrollermanager.Values{Namespace: namespace, Workers: true})
	_, scheduler := kubescheduler.Render(kubescheduler.Values{Namespace: namespace})
	s.add(etcdService, set, tunnelService, tunnel, controllers, scheduler,
		cloudcontroller.ShootDeployment(cloudcontroller.Values{Namespace: namespace}))
	s.add(machinecontrollermanager.Render(machinecontrollermanager.Values{Namespace: namespace})...)
	s.add(resourcemanager.Render(resourcemanager.Values{Namespace: namespace, Workers: true})...)
	for _, d := range steps.Deployments {
		if !slices.ContainsFunc(s.pods, func(p pod) bool { return p.namespace == namespace && p.name == d.Name }) {
			t.Errorf("Deployment %s of control planes is missing", d.Name)
		}
	}
}

func (s *seed) addChart(t *testing.T, name, namespace string, values map[string]any) {
	loaded, err := chart.LoadFS(charts.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := chart.Render(loaded, chart.Release{Name: name, Namespace: namespace}, values)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range rendered {
		if o.GetKind() == "Deployment" {
			s.add(decode(t, o))
		}
	}
}

func decode(t *testing.T, o *unstructured.Unstructured) client.Object {
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (s *seed) add(objects ...client.Object) {
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Service:
			s.services = append(s.services, o)
		case *appsv1.Deployment:
			s.addPod(pod{o.Namespace, o.Name, o.Spec.Template.Labels})
		case *appsv1.StatefulSet:
			s.addPod(pod{o.Namespace, o.Name, o.Spec.Template.Labels})
		}
	}
}

func (s *seed) addPod(p pod) {
	if !slices.ContainsFunc(s.pods, func(q pod) bool { return q.namespace == p.namespace && q.name == p.name }) {
		s.pods = append(s.pods, p)
	}
}

func (s *seed) policies(t *testing.T) map[string][]*networkingv1.NetworkPolicy {
	out := map[string][]*networkingv1.NetworkPolicy{}
	for _, ns := range s.namespaces {
		policies, err := networkpolicy.Desired(ns.Name, s.namespaces, s.services, networkpolicy.Networks{})
		if err != nil {
			t.Fatal(err)
		}
		out[ns.Name] = policies
	}
	return out
}

// ways are the ports at which one pod reaches another, as protocol and port.
func (s *seed) ways(policies map[string][]*networkingv1.NetworkPolicy, from, to pod) []string {
	matches := func(peers []networkingv1.NetworkPolicyPeer, policyNamespace string, p pod) bool {
		return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
			if peer.PodSelector == nil || !selects(*peer.PodSelector, p.labels) {
				return false
			}
			if peer.NamespaceSelector == nil {
				return p.namespace == policyNamespace
			}
			i := slices.IndexFunc(s.namespaces, func(ns *corev1.Namespace) bool { return ns.Name == p.namespace })
			return selects(*peer.NamespaceSelector, s.namespaces[i].Labels)
		})
	}
	out, in := map[string]bool{}, map[string]bool{}
	for _, p := range policies[from.namespace] {
		for _, rule := range p.Spec.Egress {
			if selects(p.Spec.PodSelector, from.labels) && matches(rule.To, p.Namespace, to) {
				addPorts(out, rule.Ports)
			}
		}
	}
	for _, p := range policies[to.namespace] {
		for _, rule := range p.Spec.Ingress {
			if selects(p.Spec.PodSelector, to.labels) && matches(rule.From, p.Namespace, from) {
				addPorts(in, rule.Ports)
			}
		}
	}
	maps.DeleteFunc(out, func(port string, _ bool) bool { return !in[port] })
	return slices.Sorted(maps.Keys(out))
}

func addPorts(set map[string]bool, ports []networkingv1.NetworkPolicyPort) {
	for _, p := range ports {
		set[p.Port.String()] = true
	}
}

func selects(selector metav1.LabelSelector, set map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(&selector)
	return err == nil && s.Matches(labels.Set(set))
}

func TestControlPlanesDoNotReachEachOther(t *testing.T) {
	s := newSeed(t)
	policies := s.policies(t)
	for _, from := range s.pods {
		for _, to := range s.pods {
			apart := strings.HasPrefix(from.namespace, "shoot--") && from.namespace != to.namespace
			if ways := s.ways(policies, from, to); apart && len(ways) > 0 {
				t.Errorf("%s/%s reaches %s/%s at %v", from.namespace, from.name, to.namespace, to.name, ways)
			}
		}
	}
}

// TestOnlyTunnelServersReachWebhooksOfExtensions: of a control plane, only the tunnel server reaches the port at which
// an extension offers webhooks to API servers of Shoots, and nothing else of the extension.
func TestOnlyTunnelServersReachWebhooksOfExtensions(t *testing.T) {
	const extension = "extension-noted"
	s := newSeed(t)
	s.namespaces = append(s.namespaces, namespaceOf(extension, "extension"))
	const prefix = "networking.resources.gardener.cloud/"
	for name, annotations := range map[string]map[string]string{
		"hook": {
			prefix + "from-all-webhook-targets-allowed-ports": `[{"port":10250,"protocol":"TCP"}]`,
			prefix + "pod-label-selector-namespace-alias":     "extensions",
			prefix + "namespace-selectors":                    `[{"matchLabels":{"gardener.cloud/role":"shoot"}}]`,
		},
		"other": nil,
	} {
		labels := map[string]string{"app": name}
		s.services = append(s.services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: extension, Name: name, Annotations: annotations},
			Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{
				{Port: 443, TargetPort: intstr.FromInt32(10250)}, {Port: 80, TargetPort: intstr.FromInt32(8080)},
			}},
		})
		s.addPod(pod{extension, name, labels})
	}
	policies := s.policies(t)
	for _, from := range s.pods {
		for _, to := range s.pods {
			if to.namespace != extension || from.namespace == extension {
				continue
			}
			want := []string(nil)
			if from.name == vpnseedserver.Name && to.name == "hook" {
				want = []string{"10250"}
			}
			if ways := s.ways(policies, from, to); !slices.Equal(ways, want) {
				t.Errorf("%s/%s reaches %s at %v, want %v", from.namespace, from.name, to.name, ways, want)
			}
		}
	}
}

// outside are the labels for destinations outside of the cluster's pods, in the order of the page.
var outside = []struct{ label, text string }{
	{component.ReachDNS, "names"},
	{component.ReachRuntimeAPI, "the seed's API server"},
	{component.Cloud[0], "public addresses"},
	{component.Cloud[1], "private addresses outside the seed"},
	{component.Cloud[2], "blocked ranges"},
}

// TestPage checks the page of allowed connections, and updates it on request.
func TestPage(t *testing.T) {
	s := newSeed(t)
	policies := s.policies(t)
	var out strings.Builder
	out.WriteString(head)
	for _, from := range s.pods {
		if from.namespace == "shoot--dev--b" {
			continue
		}
		var others, beyond []string
		for _, to := range s.pods {
			if to.namespace == "shoot--dev--b" || from.namespace == to.namespace && from.name == to.name {
				continue
			}
			if ways := s.ways(policies, from, to); len(ways) > 0 {
				others = append(others, fmt.Sprintf("%s (%s)", to.name, strings.Join(ways, ", ")))
			}
		}
		for _, o := range outside {
			if from.labels[o.label] == "allowed" {
				beyond = append(beyond, o.text)
			}
		}
		fmt.Fprintf(&out, "| %s | `%s` | %s | %s |\n", place(from.namespace), from.name, orNothing(others), orNothing(beyond))
	}
	golden.Bytes(t, "../../../docs/network-policies.md", []byte(out.String()))
}

func place(namespace string) string {
	if strings.HasPrefix(namespace, "shoot--") {
		return "control plane"
	}
	return "`" + namespace + "`"
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

const head = `<!-- Made by internal/networkpolicy/page_test.go with -update. -->
# Network policies of a seed

In the namespaces of control planes, of extensions, of the gateway and in ` + "`garden`" + ` nothing may be reached by default. Pods get out
by their labels, and are let in by the Service in front of them:

| label of a pod, with the value ` + "`allowed`" + ` | what it reaches |
|---|---|
| ` + "`networking.gardener.cloud/to-dns`" + ` | DNS servers in ` + "`kube-system`" + ` |
| ` + "`networking.gardener.cloud/to-runtime-apiserver`" + ` | the API server of the seed |
| ` + "`networking.gardener.cloud/to-public-networks`" + ` | public addresses, without what the Seed blocks |
| ` + "`networking.gardener.cloud/to-private-networks`" + ` | RFC 1918 and 100.64.0.0/10, without the seed's pods, services and nodes, and without what the Seed blocks |
| ` + "`networking.gardener.cloud/to-blocked-cidrs`" + ` | ` + "`spec.networks.blockCIDRs`" + ` of the Seed |
| ` + "`networking.hortus.dev/to-garden`" + ` | the API server of the garden, for extensions [with access](extensions.md#network); the gardenlet sets the label and makes the policy |
| ` + "`networking.resources.gardener.cloud/to-<service>-<protocol>-<port>`" + ` | that port of the pods behind a Service of the same namespace |
| ` + "`networking.resources.gardener.cloud/to-<namespace>-<service>-<protocol>-<port>`" + ` | the same in another namespace, which names the own one in its annotation |
| ` + "`networking.resources.gardener.cloud/to-<group>`" + ` | all Services of a group, such as ` + "`all-scrape-targets`" + ` |

The port is that of the pods, a number or a name. Annotations of a Service, all with the prefix ` + "`networking.resources.gardener.cloud/`" + `:

| annotation | meaning |
|---|---|
| ` + "`namespace-selectors`" + ` | JSON list of label selectors: pods of these namespaces reach the Service, too, if they have the label |
| ` + "`pod-label-selector-namespace-alias`" + ` | takes the place of the namespace in the label, so that one label is enough for the same Service of all control planes |
| ` + "`from-world-to-ports`" + ` | JSON list of ports that everybody may reach |
| ` + "`from-<group>-allowed-ports`" + ` | JSON list of ports that pods with the label of the group may reach |

The group ` + "`all-webhook-targets`" + ` is for webhooks that API servers of Shoots call in the seed. API servers connect only through the tunnel server
of their control plane, so its pods have the labels ` + "`to-all-webhook-targets`" + ` and ` + "`to-extensions-all-webhook-targets`" + `, the latter for Services
with the alias ` + "`extensions`" + `. Tenants decide what their API server calls, and so the tunnel server checks the target, too: it connects only to
ports that a Service in its own namespace names in the annotation, or a Service of an [extension that the Shoot uses](extensions.md#webhooks-in-shoots)
and whose selectors include the namespace. The list is the ConfigMap ` + "`webhook-targets`" + ` of the control plane, made by the seed's
resource-manager.

The seed's resource-manager makes the policies (` + "`internal/networkpolicy`" + ` decides); an extension needs no policies of its own. A namespace that was there
before an update denies by default once the Shoot has been reconciled. Policies hold where the network of the seed enforces them, as
[that of the local cloud](controllers/network-agent.md) does.

What follows is computed from the objects that Hortus makes: for one control plane, an extension and the seed's own components. Control
planes do not reach each other. Kubelets reach the pods of their node, whatever the policies say. The gateway takes connections from everywhere.

| where | who | reaches pods (ports) | reaches beyond |
|---|---|---|---|
`
