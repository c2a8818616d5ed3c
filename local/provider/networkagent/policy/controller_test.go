package policy

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fakeKernel stores rules and fails on demand.
type fakeKernel struct {
	t                       *testing.T
	rules                   Ruleset
	replaced, changed       int
	failReplace, failChange error
}

func (k *fakeKernel) Replace(r Ruleset) error {
	if k.failReplace != nil {
		return k.failReplace
	}
	k.replaced++
	k.rules = r
	return nil
}

func (k *fakeKernel) Apply(c Change) error {
	if k.failChange != nil {
		return k.failChange
	}
	k.changed++
	k.rules = apply(k.t, k.rules, c)
	return nil
}

func TestController(t *testing.T) {
	a, b := newPod("x/a", "app=a", "10.0.0.1"), newPod("x/b", "app=b", "10.0.0.2")
	deny := newPolicy("x/deny", "app=b")
	ns := newNamespace("x", "")
	cl := fake.NewClientBuilder().WithObjects(&a, &b, &ns).Build()
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	kernel := &fakeKernel{t: t}
	registry := prometheus.NewRegistry()
	c := &Controller{
		Client: cl, Clock: clk, Kernel: kernel, Node: self,
		Metrics: NewMetrics(registry, func() (Refused, error) { return Refused{Egress: 3, Ingress: 4}, nil }),
	}
	pass := func() reconcile.Result {
		t.Helper()
		result, err := c.Reconcile(t.Context(), reconcile.Request{})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	expect := func(replaced, changed int) {
		t.Helper()
		if kernel.replaced != replaced || kernel.changed != changed {
			t.Fatalf("%d replacements and %d changes, want %d and %d", kernel.replaced, kernel.changed, replaced, changed)
		}
	}
	later := func() { clk.SetTime(clk.Now().Add(minInterval)) }
	to := packet{source: address("10.0.0.1"), destination: address("10.0.0.2"), protocol: TCP, port: 80}

	kernel.failReplace = errors.New("no memory")
	if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Fatal("a failure of the kernel is not reported")
	}
	if c.Ready(nil) == nil {
		t.Error("ready before rules are applied")
	}
	kernel.failReplace = nil
	pass()
	expect(1, 0)
	if err := c.Ready(nil); err != nil {
		t.Error(err)
	}

	if err := cl.Create(t.Context(), &deny); err != nil {
		t.Fatal(err)
	}
	if wait := pass().RequeueAfter; wait != minInterval {
		t.Errorf("the second pass waits %v, want %v", wait, minInterval)
	}
	expect(1, 0)
	later()
	pass()
	expect(1, 1)
	if passes(kernel.rules, to) {
		t.Error("the policy is not applied")
	}

	later()
	pass()
	expect(1, 1) // Nothing has changed.

	kernel.failChange = errors.New("no such chain")
	if err := cl.Delete(t.Context(), &deny); err != nil {
		t.Fatal(err)
	}
	later()
	pass()
	expect(2, 1)
	if !passes(kernel.rules, to) {
		t.Error("the policy is still applied")
	}

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			got[family.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"hortus_network_agent_rule_changes_total": 3, "hortus_network_agent_policies": 0,
		"hortus_network_agent_restricted_pods":       0,
		"hortus_network_agent_refused_packets_total": 7, "hortus_network_agent_pod_setup_duration_seconds": 0,
		"hortus_network_agent_pod_setup_errors_total": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics mismatch (-want +got):\n%s", diff)
	}
}

func nobody(client.ObjectKey) bool { return false }

func TestEventsThatMatter(t *testing.T) {
	pod := newPod("x/a", "app=a", "10.0.0.1", withPort("web", corev1.ProtocolTCP, 80))
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a condition": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}}
		}, false},
		"an annotation":             {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"another phase that counts": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		"a port without name":       {func(p *corev1.Pod) { withPort("", corev1.ProtocolTCP, 81)(p) }, false},
		"the end":                   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, true},
		"a label":                   {func(p *corev1.Pod) { p.Labels = labelsOf("app=b") }, true},
		"an address":                {func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "10.0.0.2", nil }, true},
		"a node":                    {func(p *corev1.Pod) { p.Spec.NodeName = "node-2" }, true},
		"deletion":                  {deleted, true},
		"a port with a name":        {func(p *corev1.Pod) { withPort("dns", corev1.ProtocolUDP, 53)(p) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			after := pod.DeepCopy()
			tc.change(after)
			for kind, e := range map[string]event.UpdateEvent{
				"whole": {ObjectOld: &pod, ObjectNew: after},
				"slim":  {ObjectOld: slimPod(&pod, self), ObjectNew: slimPod(after, self)},
			} {
				if got := podEvents(nobody).Update(e); got != tc.want {
					t.Errorf("%s objects: %t, want %t", kind, got, tc.want)
				}
			}
		})
	}

	for name, tc := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"one of the node with an address":       {newPod("x/a", "", "10.0.0.1"), true},
		"one of another node with an address":   {newPod("x/a", "", "10.0.0.1", onNode("node-2")), true},
		"one without address":                   {newPod("x/a", "", ""), false},
		"one with an address of IPv6 only":      {newPod("x/a", "", "fd00::1"), false},
		"one without address, but with sandbox": {newPod("x/reported", "", ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			events := podEvents(func(key client.ObjectKey) bool {
				return key == client.ObjectKey{
					Namespace: "x", Name: "reported",
				}
			})
			if got := events.Create(event.CreateEvent{Object: &tc.pod}); got != tc.want {
				t.Errorf("its creation matters: %t, want %t", got, tc.want)
			}
			if got := events.Delete(event.DeleteEvent{Object: &tc.pod}); got != tc.want {
				t.Errorf("its deletion matters: %t, want %t", got, tc.want)
			}
			labelled := tc.pod.DeepCopy()
			labelled.Labels = labelsOf("a=b")
			if got := events.Update(event.UpdateEvent{ObjectOld: &tc.pod, ObjectNew: labelled}); got != tc.want {
				t.Errorf("its labels matter: %t, want %t", got, tc.want)
			}
		})
	}

	ns, labelled := newNamespace("x", "a=b"), newNamespace("x", "a=c")
	annotated := ns
	annotated.Annotations = map[string]string{"a": "b"}
	if namespaceChanged.Update(event.UpdateEvent{ObjectOld: &ns, ObjectNew: &annotated}) {
		t.Error("an annotation of a namespace matters")
	}
	if !namespaceChanged.Update(event.UpdateEvent{ObjectOld: &ns, ObjectNew: &labelled}) {
		t.Error("a label of a namespace does not matter")
	}
	p, other := newPolicy("x/a", "app=a"), newPolicy("x/a", "app=b")
	touched := p
	touched.ResourceVersion = "2"
	if policyChanged.Update(event.UpdateEvent{ObjectOld: &p, ObjectNew: &touched}) {
		t.Error("the version of a policy matters")
	}
	if !policyChanged.Update(event.UpdateEvent{ObjectOld: &p, ObjectNew: &other}) {
		t.Error("the selector of a policy does not matter")
	}
}

// TestSlimObjectsDecideTheSame decides with the fields that caches keep.
func TestSlimObjectsDecideTheSame(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	whole := Observed{
		Node: self,
		Pods: []corev1.Pod{
			newPod("x/a", "app=a", "10.0.0.1", withPort("web", corev1.ProtocolTCP, 80), withInitPort(&always, "side", 81),
				withInitPort(nil, "init", 82), createdAt(5)),
			newPod("x/b", "app=b", "10.0.0.1", createdAt(9), deleted),
			newPod("x/c", "app=c", "10.0.0.3", onNode("node-2"), func(p *corev1.Pod) {
				p.Status.PodIPs = append([]corev1.PodIP{{IP: "fd00::1"}}, p.Status.PodIPs...)
			}),
		},
		Namespaces: []corev1.Namespace{newNamespace("x", "team=x")},
		Policies: []networkingv1.NetworkPolicy{newPolicy("x/p", "", from(peers{namespaces("team=x")}, ports{
			namedPort(corev1.ProtocolTCP, "web"), namedPort(corev1.ProtocolTCP, "side"), namedPort(corev1.ProtocolTCP, "init"),
		}))},
	}
	whole.Policies[0].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	slim := Observed{
		Node: self, Namespaces: []corev1.Namespace{*slimNamespace(&whole.Namespaces[0])},
		Policies: []networkingv1.NetworkPolicy{*slimPolicy(&whole.Policies[0])},
	}
	for i := range whole.Pods {
		slim.Pods = append(slim.Pods, *slimPod(&whole.Pods[i], self))
	}
	if diff := cmp.Diff(Decide(whole).String(), Decide(slim).String()); diff != "" {
		t.Errorf("rules of slim objects (-want +got):\n%s", diff)
	}
	if slim.Policies[0].ManagedFields != nil {
		t.Error("managed fields are cached")
	}
}

// TestPodsWithoutAddressAreSmall: only pods of the node keep all fields that may be needed.
func TestPodsWithoutAddressAreSmall(t *testing.T) {
	whole := newPod("x/a", "app=a", "", withPort("web", corev1.ProtocolTCP, 80), mirror, withUID("1"))
	whole.Annotations["other"] = "annotation"
	own := slimPod(&whole, self)
	if own.Labels == nil || namedPorts(own) == nil || len(own.Annotations) != 1 || own.UID != "1" {
		t.Errorf("of a pod of the node too little or too much is kept: %+v", own)
	}
	other := slimPod(&whole, "node-2")
	if other.Labels != nil || namedPorts(other) != nil || other.Annotations != nil || other.Spec.NodeName != self {
		t.Errorf("of a pod of another node too little or too much is kept: %+v", other)
	}
}
