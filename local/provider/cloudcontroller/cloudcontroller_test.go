package cloudcontroller

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

func testNode(name, instance string, ready corev1.ConditionStatus) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if instance != "" {
		n.Spec.ProviderID = "local:///r1/" + instance
	}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	}
	return n
}

func testService(mutate func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid"},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 443, NodePort: 30443, Protocol: corev1.ProtocolTCP}, {Port: 80, NodePort: 30080}},
		},
	}
	if mutate != nil {
		mutate(svc)
	}
	return svc
}

func TestListeners(t *testing.T) {
	a, b := testNode("a", "i-a", corev1.ConditionTrue), testNode("b", "i-b", corev1.ConditionTrue)
	both := func(port int) []cloud.Target {
		return []cloud.Target{{InstanceID: "i-a", Port: port}, {InstanceID: "i-b", Port: port}}
	}
	excluded := testNode("x", "i-x", corev1.ConditionTrue)
	excluded.Labels = map[string]string{labelExclude: ""}
	for name, tc := range map[string]struct {
		svc       *corev1.Service
		nodes     []corev1.Node
		endpoints []discoveryv1.EndpointSlice
		want      []cloud.Listener
		skipped   []string
	}{
		"every port has every ready node as target, in order": {
			svc: testService(nil), nodes: []corev1.Node{b, a},
			want: []cloud.Listener{{Port: 80, Targets: both(30080)}, {Port: 443, Targets: both(30443)}},
		},
		"nodes that are not ready, unknown or excluded are no targets": {
			svc: testService(func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] }),
			nodes: []corev1.Node{
				a, testNode("c", "i-c", corev1.ConditionFalse), testNode("d", "", corev1.ConditionTrue), testNode("e", "i-e",
					""), excluded,
			},
			want: []cloud.Listener{{Port: 443, Targets: []cloud.Target{{InstanceID: "i-a", Port: 30443}}}},
		},
		"without nodes the ports stay": {
			svc:  testService(nil),
			want: []cloud.Listener{{Port: 80, Targets: []cloud.Target{}}, {Port: 443, Targets: []cloud.Target{}}},
		},
		"other protocols are reported": {
			svc: testService(func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{{Port: 53, NodePort: 30053, Protocol: corev1.ProtocolUDP}}
			}),
			nodes: []corev1.Node{a}, skipped: []string{"53/UDP"},
		},
		"a port without node port waits": {
			svc:   testService(func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Port: 80}} }),
			nodes: []corev1.Node{a},
		},
		"with local traffic only nodes with an endpoint count": {
			svc: testService(func(s *corev1.Service) {
				s.Spec.Ports, s.Spec.ExternalTrafficPolicy = s.Spec.Ports[:1], corev1.ServiceExternalTrafficPolicyLocal
			}),
			nodes: []corev1.Node{a, b},
			endpoints: []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{
				{NodeName: ptr.To("b")}, {NodeName: ptr.To("a"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
			}}},
			want: []cloud.Listener{{Port: 443, Targets: []cloud.Target{{InstanceID: "i-b", Port: 30443}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, skipped := listeners(tc.svc, tc.nodes, tc.endpoints)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("listeners() mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.skipped, skipped); diff != "" {
				t.Errorf("skipped ports mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWantsLoadBalancer(t *testing.T) {
	for name, tc := range map[string]struct {
		svc  *corev1.Service
		want bool
	}{
		"a Service of the type": {testService(nil), true},
		"another type": {
			testService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }), false,
		},
		"one for another controller": {
			testService(func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("other") }), false,
		},
		"one that is being deleted": {
			testService(func(s *corev1.Service) { s.DeletionTimestamp = ptr.To(metav1.Now()) }), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wantsLoadBalancer(tc.svc); got != tc.want {
				t.Errorf("wantsLoadBalancer() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestServiceLife(t *testing.T) {
	ctx := t.Context()
	c := cloudtest.Start(t, cloudtest.Options{})
	instance, err := c.Client.CreateInstance(ctx, cloud.CreateInstance{
		Name: "a", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: c.Network(t, "n", "10.9.0.0/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	node := testNode("a", instance.ID, corev1.ConditionFalse)
	svc := testService(nil)
	k := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(&node, svc).WithStatusSubresource(&corev1.Service{},
		&corev1.Node{}).Build()
	r := &Services{Client: k, Cloud: c.Client, Cluster: "test", Recorder: events.NewFakeRecorder(10)}
	step := func() reconcile.Result {
		t.Helper()
		if err := k.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil {
			t.Fatal(err)
		}
		result, err := r.Reconcile(ctx, svc)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	balancers := func() []cloud.LoadBalancer {
		t.Helper()
		found, err := c.Client.ListLoadBalancers(ctx, cloud.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	step()
	found := balancers()
	if len(found) != 1 || len(found[0].Listeners) != 2 || len(found[0].Listeners[0].Targets) != 0 {
		t.Fatalf("load balancers are %+v, want one with two ports and no targets", found)
	}
	if err := k.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil {
		t.Fatal(err)
	}
	if got := svc.Status.LoadBalancer.Ingress; len(got) != 1 || got[0].IP != found[0].Address {
		t.Errorf("ingress is %+v, want %s", got, found[0].Address)
	}

	node.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := k.Status().Update(ctx, &node); err != nil {
		t.Fatal(err)
	}
	step()
	step() // No further changes.
	if found = balancers(); len(found[0].Listeners[0].Targets) != 1 {
		t.Errorf("listeners are %+v, want the node as target", found[0].Listeners)
	}

	first := found[0].ID
	change := func(to corev1.ServiceType) {
		t.Helper()
		svc.Spec.Type = to
		if err := k.Update(ctx, svc); err != nil {
			t.Fatal(err)
		}
	}
	settled := func() bool { return step().RequeueAfter == 0 }
	change(corev1.ServiceTypeClusterIP)
	if step().RequeueAfter == 0 {
		t.Error("Reconcile() ends while the load balancer is being deleted")
	}
	if err := k.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil {
		t.Fatal(err)
	}
	if len(svc.Finalizers) != 1 || len(svc.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("finalizers are %q and ingress %+v, want the finalizer only while the load balancer is being deleted",
			svc.Finalizers, svc.Status.LoadBalancer.Ingress)
	}
	change(corev1.ServiceTypeLoadBalancer) // The user changes the type back before the deletion is done.
	c.Eventually(t, "the Service has its second load balancer", settled)
	if found = balancers(); len(found) != 1 || found[0].ID == first {
		t.Errorf("load balancers are %+v, want a different one from %s", found, first)
	}

	if err := k.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil {
		t.Fatal(err)
	}
	change(corev1.ServiceTypeClusterIP)
	c.Eventually(t, "the load balancer of the Service is gone", settled)
	if found = balancers(); len(found) != 0 {
		t.Errorf("load balancers after the change of the type are %+v, want none", found)
	}
	if err := k.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil {
		t.Fatal(err)
	}
	if len(svc.Finalizers) != 0 || len(svc.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("finalizers are %q and ingress %+v, want none", svc.Finalizers, svc.Status.LoadBalancer.Ingress)
	}
}

func TestNodes(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	instance, err := c.Client.CreateInstance(t.Context(), cloud.CreateInstance{
		Name: "a", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: c.Network(t, "n", "10.9.0.0/24"),
		Zone: "local-b",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		node corev1.Node
		want *corev1.Node // Nil means gone.
	}{
		"a node found by its name is completed": {
			node: testNode("a", "", corev1.ConditionTrue),
			want: &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{
					corev1.LabelTopologyRegion: "local", corev1.LabelTopologyZone: "local-b", corev1.LabelInstanceTypeStable: "small",
				}},
				Spec: corev1.NodeSpec{ProviderID: instance.ProviderID},
				Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{
					Type: corev1.NodeInternalIP, Address: instance.Address,
				}}},
			},
		},
		"an unready node without instance is deleted": {node: testNode("gone", "i-gone", corev1.ConditionUnknown)},
		"a ready node is never deleted": {
			node: testNode("odd", "i-odd", corev1.ConditionTrue),
			want: &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "odd"}, Spec: corev1.NodeSpec{ProviderID: "local:///r1/i-odd"},
			},
		},
		"a node outside of the cloud is not changed": {
			node: testNode("other", "", corev1.ConditionUnknown),
			want: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			k := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(&tc.node).
				WithStatusSubresource(&corev1.Node{}).Build()
			node := &corev1.Node{}
			if err := k.Get(ctx, client.ObjectKeyFromObject(&tc.node), node); err != nil {
				t.Fatal(err)
			}
			if _, err := (&Nodes{Client: k, Cloud: c.Client}).Reconcile(ctx, node); err != nil {
				t.Fatal(err)
			}
			err := k.Get(ctx, client.ObjectKeyFromObject(&tc.node), node)
			if tc.want == nil {
				if client.IgnoreNotFound(err) != nil || err == nil {
					t.Errorf("the node is still there (%v)", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			node.ResourceVersion, node.Status.Conditions = "", nil
			if diff := cmp.Diff(tc.want, node); diff != "" {
				t.Errorf("node mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
