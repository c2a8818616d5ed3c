package networkpolicy

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"hortus.dev/hortus/internal/networkpolicy"
)

func namespace(name, role string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelMetadataName: name, "gardener.cloud/role": role, networkpolicy.LabelIsolated: "true",
	}}}
}

func newReconciler(objects ...client.Object) *Reconciler {
	api := []client.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.1"}, Ports: []corev1.ServicePort{{Port: 443}}},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"},
			},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.10"}}},
			Ports:     []discoveryv1.EndpointPort{{Port: ptr.To(int32(6443))}},
		},
	}
	c := fake.NewClientBuilder().WithObjects(append(api, objects...)...).Build()
	return &Reconciler{
		Client: c, Live: c,
		Cluster: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
	}
}

// names reconciles a namespace and returns the names of its policies.
func names(t *testing.T, r *Reconciler, namespace string) []string {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), request(namespace)); err != nil {
		t.Fatal(err)
	}
	list := &networkingv1.NetworkPolicyList{}
	if err := r.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range list.Items {
		out = append(out, p.Name)
	}
	return out
}

func TestPoliciesFollowServices(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "db", Annotations: map[string]string{
			"networking.resources.gardener.cloud/namespace-selectors": `[{"matchLabels":{"gardener.cloud/role":"garden"}}]`,
		}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "db"},
			Ports:    []corev1.ServicePort{{Port: 5432, Protocol: corev1.ProtocolTCP}},
		},
	}
	r := newReconciler(namespace("shoot--dev--a", "shoot"), namespace("garden",
		"garden"), namespace("default", ""), service)
	if got := names(t, r, "default"); len(got) != 0 {
		t.Errorf("a namespace that is not managed has %v", got)
	}
	for ns, want := range map[string]string{
		"shoot--dev--a": "ingress-to-db-tcp-5432-from-garden", "garden": "egress-to-shoot--dev--a-db-tcp-5432",
	} {
		if got := names(t, r, ns); !slices.Contains(got, want) || !slices.Contains(got, networkpolicy.DenyAll) {
			t.Errorf("%s has %v, want %s and %s among them", ns, got, want, networkpolicy.DenyAll)
		}
	}
	if requests := r.ofService(t.Context(), service); len(requests) != 2 {
		t.Errorf("a change of the Service enqueues %v, want both namespaces", requests)
	}
	if err := r.Client.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	if got := names(t, r, "garden"); slices.Contains(got, "egress-to-shoot--dev--a-db-tcp-5432") {
		t.Errorf("without the Service there is still %v", got)
	}
}

func TestWhatOthersChangeIsPutRight(t *testing.T) {
	r := newReconciler(namespace("garden", "garden"))
	names(t, r, "garden")
	api := &networkingv1.NetworkPolicy{}
	key := client.ObjectKey{Namespace: "garden", Name: networkpolicy.AllowRuntime}
	if err := r.Client.Get(t.Context(), key, api); err != nil {
		t.Fatal(err)
	}
	if got := len(api.Spec.Egress); got != 2 {
		t.Errorf("the API server has %d addresses, want those of its Service and of its endpoint", got)
	}
	want := api.DeepCopy().Spec
	api.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	if err := r.Client.Update(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	names(t, r, "garden")
	if err := r.Client.Get(t.Context(), key, api); err != nil {
		t.Fatal(err)
	}
	if len(api.Spec.Egress) != len(want.Egress) || len(api.Spec.Egress[0].To) == 0 {
		t.Errorf("the policy is %v, want %v again", api.Spec.Egress, want.Egress)
	}
}

func TestNamespacesNameThoseWhoseServicesTheyReach(t *testing.T) {
	hook := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "extension-a", Name: "hook",
		Annotations: map[string]string{
			"networking.resources.gardener.cloud/namespace-selectors": `[{"matchLabels":{"gardener.cloud/role":"shoot"}}]`,
		}}}
	r := newReconciler(hook)
	for role, want := range map[string]int{"shoot": 2, "garden": 1} {
		if got := r.ofNamespace(t.Context(), namespace("n", role)); len(got) != want {
			t.Errorf("a namespace with role %s enqueues %v, want %d", role, got, want)
		}
	}
}

// TestPodsNoticeNewWebhooks: when the list of webhooks changes, the pods that read it change, too, so that their
// kubelets look at it. Other pods, and reconciliations without changes, do not.
func TestPodsNoticeNewWebhooks(t *testing.T) {
	const prefix = "networking.resources.gardener.cloud/"
	pod := func(name string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: name, Labels: labels}}
	}
	hook := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "hook", Annotations: map[string]string{
			prefix + "from-all-webhook-targets-allowed-ports": `[{"port":10250}]`,
		}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "hook"}, Ports: []corev1.ServicePort{{Port: 10250}}},
	}
	r := newReconciler(namespace("shoot--dev--a", "shoot"), hook,
		pod("vpn-seed-server-0", map[string]string{prefix + "to-all-webhook-targets": "allowed"}), pod("etcd-main-0", nil))
	noted := func(name string) string {
		t.Helper()
		names(t, r, "shoot--dev--a")
		out := &corev1.Pod{}
		if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "shoot--dev--a", Name: name}, out); err != nil {
			t.Fatal(err)
		}
		return out.Annotations[annotationTargets]
	}
	first := noted("vpn-seed-server-0")
	if other := noted("etcd-main-0"); first == "" || other != "" {
		t.Errorf("the tunnel server has noted %q, etcd %q", first, other)
	}
	live := r.Live
	r.Live = nil // Pods are not listed if nothing has changed.
	noted("vpn-seed-server-0")
	r.Live = live
	hook.Spec.Ports[0].Name, hook.Spec.Ports = "a", append(hook.Spec.Ports, corev1.ServicePort{
		Name: "b", Port: 443, TargetPort: intstr.FromInt32(10250),
	})
	if err := r.Client.Update(t.Context(), hook); err != nil {
		t.Fatal(err)
	}
	if second := noted("vpn-seed-server-0"); second == first {
		t.Errorf("with another port the tunnel server still has %q", second)
	}
	list := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: "shoot--dev--a", Name: networkpolicy.WebhookTargetsName}
	if err := r.Client.Get(t.Context(), key, list); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Delete(t.Context(), hook); err != nil {
		t.Fatal(err)
	}
	if third := noted("vpn-seed-server-0"); third == first || third == "" {
		t.Errorf("without webhooks the tunnel server has %q", third)
	}
	if err := r.Client.Get(t.Context(), key, list); !apierrors.IsNotFound(err) {
		t.Errorf("without webhooks there is a list: %v", err)
	}
}
