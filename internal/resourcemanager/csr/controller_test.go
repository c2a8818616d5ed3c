package csr

import (
	"context"
	"fmt"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/resourcemanager/machineaccess"
)

func TestReconcileApprovesAndDenies(t *testing.T) {
	for name, tc := range map[string]struct {
		machine string // Name of its node.
		nodes   []client.Object
		want    certificatesv1.RequestConditionType // Empty: ignored.
	}{
		"known node":   {"n", []client.Object{theNode()}, certificatesv1.CertificateApproved},
		"unknown node": {"n", []client.Object{nodeWith("other")}, certificatesv1.CertificateDenied},
		"another node has the address": {
			"n", []client.Object{theNode(), nodeWith("other", internalIP("10.0.0.1"))}, certificatesv1.CertificateDenied,
		},
		"no machine": {"other", []client.Object{theNode()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := wish{cn: "system:node:n", orgs: []string{"system:nodes"}, dns: []string{"n"}, ips: []string{"10.0.0.1"}}
			r := request(t, certificatesv1.KubeletServingSignerName, "system:node:n", nil, w, serving...)
			c := reconcilerWith(t, machineObject("m", tc.machine), append(tc.nodes, r)...)
			if got := reconcileOnce(t, c); got != (reconcile.Result{}) {
				t.Errorf("result %+v", got)
			}
			if got := answer(t, c); got != tc.want {
				t.Errorf("answer %q, want %q", got, tc.want)
			}
		})
	}
}

// reads counts requests to an API server, and the objects in its responses.
type reads struct{ requests, objects int }

func (r *reads) of(c client.Client) client.Reader {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			r.requests++
			err := c.Get(ctx, key, o, options...)
			if err == nil {
				r.objects++
			}
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			r.requests++
			err := c.List(ctx, list, options...)
			r.objects += meta.LenList(list)
			return err
		},
	})
}

// TestDirectReads: the direct reads for a decision do not grow with the size of the Shoot, here with 41 machines.
func TestDirectReads(t *testing.T) {
	kubelet := func(node string) wish {
		return wish{cn: "system:node:" + node, orgs: []string{corev1beta1.KubeletsGroup}}
	}
	agent := func(machine string) wish {
		return wish{cn: corev1beta1.NodeAgentUserPrefix + machine, orgs: []string{corev1beta1.NodeAgentsGroup}}
	}
	server := kubelet("n")
	server.dns, server.ips = []string{"n"}, []string{"10.0.0.1"}
	greedy := server
	for i := range 40 {
		greedy.dns = append(greedy.dns, fmt.Sprintf("n-%d", i))
	}
	node, bootstrap := "system:node:n", corev1beta1.BootstrapUserPrefix+token
	const (
		forServing = certificatesv1.KubeletServingSignerName
		forKubelet = certificatesv1.KubeAPIServerClientKubeletSignerName
		forAgent   = certificatesv1.KubeAPIServerClientSignerName
		approved   = certificatesv1.CertificateApproved
		refused    = certificatesv1.CertificateDenied
	)
	for name, tc := range map[string]struct {
		signer, user string
		wish         wish
		want         certificatesv1.RequestConditionType
		reads        reads
	}{
		"serving": {forServing, node, server, approved, reads{2, 2}},
		"serving, with the names of all": {
			forServing, node, greedy, refused, reads{2 + 2*maxConfirmed, 2 + 2*maxConfirmed},
		},
		"kubelet":                          {forKubelet, node, kubelet("n"), approved, reads{2, 2}},
		"kubelet of another node":          {forKubelet, node, kubelet("n-1"), refused, reads{3, 3}},
		"token of a machine that joined":   {forKubelet, bootstrap, kubelet("n"), refused, reads{2, 2}},
		"token, for what cannot be a node": {forKubelet, bootstrap, kubelet(",!"), refused, reads{2, 42}},
		"node agent":                       {forAgent, node, agent(machineName), approved, reads{2, 2}},
		"node agent of no machine":         {forAgent, node, agent("x"), refused, reads{1, 0}},
		"node agent of what cannot be one": {forAgent, node, agent("x/y"), refused, reads{}},
	} {
		t.Run(name, func(t *testing.T) {
			usages := clientOnly
			if tc.signer == forServing {
				usages = serving
			}
			r := request(t, tc.signer, tc.user, bootstrappers, tc.wish, usages...)
			nodes, machines := []client.Object{theNode(), r}, []client.Object{machineObject(machineName, "n")}
			for i := range 40 {
				node := fmt.Sprintf("n-%d", i)
				nodes = append(nodes, nodeWith(node))
				machines = append(machines, machineObject(fmt.Sprintf("pool-z1-%d-zzzzz", i), node))
			}
			c := reconcilerWith(t, machineObject(machineName, "n"), nodes...)
			source := fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(machines...).Build()
			var got reads
			c.Machines, c.Source, c.TargetReader = source, got.of(source), got.of(c.TargetReader.(client.Client))
			if reconcileOnce(t, c); answer(t, c) != tc.want {
				t.Errorf("answer %q, want %q", answer(t, c), tc.want)
			}
			if got != tc.reads {
				t.Errorf("%+v, want %+v", got, tc.reads)
			}
		})
	}
}

// TestStaleCacheDeniesNothing: the reasons against a request are in the caches, but have been removed or changed, or do
// not exist yet.
func TestStaleCacheDeniesNothing(t *testing.T) {
	bootstrap := corev1beta1.BootstrapUserPrefix + token
	servingRequest := request(t, certificatesv1.KubeletServingSignerName, "system:node:n", nil,
		wish{
			cn: "system:node:n", orgs: []string{corev1beta1.KubeletsGroup}, dns: []string{"n"}, ips: []string{"10.0.0.1"},
		}, serving...)
	first := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName, bootstrap, bootstrappers,
		wish{cn: "system:node:n", orgs: []string{corev1beta1.KubeletsGroup}}, clientOnly...)
	former := machineObject("former", "o")
	former.Status.Addresses = []corev1.NodeAddress{internalIP("10.0.0.1")}
	mine := machineObject(machineName, "n")
	for name, tc := range map[string]struct {
		request       *certificatesv1.CertificateSigningRequest
		cached, there []client.Object // Machines.
		cachedNodes   []client.Object
		want          certificatesv1.RequestConditionType
	}{
		"the address of a deleted machine": {
			servingRequest, []client.Object{mine, former}, []client.Object{mine}, nil, certificatesv1.CertificateApproved,
		},
		"the address of a deleted node": {
			servingRequest, []client.Object{mine}, []client.Object{mine}, []client.Object{nodeWith("o", internalIP("10.0.0.1"))},
			certificatesv1.CertificateApproved,
		},
		"the token of a deleted machine": {
			first, []client.Object{machineObject("pool-z2-abcde", "o")}, nil, nil, "",
		},
		"the token of a machine that is not cached yet": {
			first, []client.Object{machineObject("pool-z2-abcde", "o")},
			[]client.Object{machineObject("pool-z2-abcde", "o"), machineObject(machineName, "")}, nil, "",
		},
		"the token of a machine with another node": {
			first, []client.Object{machineObject(machineName, "o")}, []client.Object{machineObject(machineName, "o")}, nil,
			certificatesv1.CertificateDenied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := reconcilerWith(t, mine, append(tc.cachedNodes, theNode(), tc.request.DeepCopy())...)
			c.TargetReader = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(theNode()).Build()
			c.Machines = fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(tc.cached...).Build()
			c.Source = fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(tc.there...).Build()
			if reconcileOnce(t, c); answer(t, c) != tc.want {
				t.Errorf("answer %q, want %q", answer(t, c), tc.want)
			}
		})
	}
}

// TestMachineBecomesKnown has a request wait for the machine's node in the cache, and checks that the decision uses
// direct reads.
func TestMachineBecomesKnown(t *testing.T) {
	w := wish{cn: "system:node:n", orgs: []string{corev1beta1.KubeletsGroup}}
	user := corev1beta1.BootstrapUserPrefix + token
	r := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName, user, bootstrappers, w, clientOnly...)
	r.CreationTimestamp = metav1.Unix(90, 0)
	c := reconcilerWith(t, machineObject(machineName, ""), r)
	if got := reconcileOnce(t, c); got.RequeueAfter != 10*time.Second {
		t.Errorf("result %+v, want another check after 10 s", got)
	}
	if got := c.open(t.Context(), nil); len(got) != 1 || got[0].Name != r.Name {
		t.Errorf("open requests: %v", got)
	}
	known := fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(machineObject(machineName, "n")).Build()
	c.Machines = known
	if reconcileOnce(t, c); answer(t, c) != "" {
		t.Error("decided with a cache that is ahead of the direct reads")
	}
	c.Source = known
	if reconcileOnce(t, c); answer(t, c) != certificatesv1.CertificateApproved {
		t.Errorf("answer %q", answer(t, c))
	}
	if got := c.open(t.Context(), nil); len(got) != 0 {
		t.Errorf("open requests: %v", got)
	}
	role := client.ObjectKey{Name: "gardener.cloud:machine:" + machineName}
	if err := c.Target.Get(t.Context(), role, &rbacv1.ClusterRole{}); err != nil {
		t.Errorf("the machine has a certificate, but no permissions: %v", err)
	}
}

func machineObject(name, node string) *machinev1alpha1.Machine {
	m := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "cp", Name: name}}
	if node != "" {
		m.Labels = map[string]string{machinev1alpha1.NodeLabelKey: node}
	}
	return m
}

func machineScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := machinev1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// reconcilerWith has the request "r" in its objects; its clock is at 100 s.
func reconcilerWith(t *testing.T, m *machinev1alpha1.Machine, objects ...client.Object) *Reconciler {
	t.Helper()
	source := fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(m).Build()
	target := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&certificatesv1.CertificateSigningRequest{}).Build()
	return &Reconciler{
		Target: approvals{target}, TargetReader: target, Machines: source, Source: source, Namespace: "cp",
		Grants: machineaccess.Grants{Target: target, Direct: target},
		Clock:  clocktesting.NewFakePassiveClock(time.Unix(100, 0)),
	}
}

func reconcileOnce(t *testing.T, c *Reconciler) reconcile.Result {
	t.Helper()
	result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "r"}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// answer returns the type of the only condition of the request, "" if it has none.
func answer(t *testing.T, c *Reconciler) certificatesv1.RequestConditionType {
	t.Helper()
	r := &certificatesv1.CertificateSigningRequest{}
	if err := c.Target.Get(t.Context(), types.NamespacedName{Name: "r"}, r); err != nil {
		t.Fatal(err)
	}
	if len(r.Status.Conditions) == 0 {
		return ""
	}
	if len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions %+v", r.Status.Conditions)
	}
	return r.Status.Conditions[0].Type
}

// approvals replaces the approval subresource, which the fake client does not have, by its status.
type approvals struct{ client.Client }

func (a approvals) SubResource(string) client.SubResourceClient {
	return a.Client.SubResource("status")
}
