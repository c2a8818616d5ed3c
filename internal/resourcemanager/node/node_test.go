package node

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var critical = map[string]string{LabelCritical: "true"}

func daemonSet(name string, change ...func(*appsv1.DaemonSet)) appsv1.DaemonSet {
	d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: name, UID: types.UID(name), Labels: critical,
	}}
	d.Spec.Template.Labels = critical
	for _, c := range change {
		c(&d)
	}
	return d
}

func pod(owner string, ready bool, annotations map[string]string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: owner + "-x", Labels: critical, Annotations: annotations,
		},
		Spec: corev1.PodSpec{NodeName: "n"},
	}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{
			Kind: "DaemonSet", Name: owner, UID: types.UID(owner), Controller: ptr.To(true),
		}}
	}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func theNode(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: TaintNotReady, Effect: corev1.TaintEffectNoSchedule}}}}
	for _, c := range change {
		c(n)
	}
	return n
}

func tolerateAll(d *appsv1.DaemonSet) {
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

func TestJudge(t *testing.T) {
	waits := map[string]string{
		annotationWaitForCSI + "disk": "disk.csi", annotationWaitForCSI + "file": "file.csi", "other": "x",
	}
	for name, tc := range map[string]struct {
		sets    []appsv1.DaemonSet
		pods    []corev1.Pod
		drivers []string
		reason  string
		message string
	}{
		"nothing critical": {},
		"all ready":        {sets: []appsv1.DaemonSet{daemonSet("a", tolerateAll)}, pods: []corev1.Pod{pod("a", true, nil)}},
		"a DaemonSet without a pod": {sets: []appsv1.DaemonSet{daemonSet("b", tolerateAll), daemonSet("a", tolerateAll)},
			reason: reasonUnscheduled, message: "kube-system/a, kube-system/b"},
		"a critical DaemonSet whose pods are not critical": {sets: []appsv1.DaemonSet{daemonSet("a", tolerateAll,
			func(d *appsv1.DaemonSet) { d.Spec.Template.Labels = nil })}},
		"a DaemonSet that is not critical, but its pods are": {sets: []appsv1.DaemonSet{daemonSet("a", tolerateAll,
			func(d *appsv1.DaemonSet) { d.Labels = nil })}},
		// It does not tolerate the taint.
		"a DaemonSet for other nodes": {sets: []appsv1.DaemonSet{daemonSet("a")}},
		"a pod of another owner does not count": {sets: []appsv1.DaemonSet{daemonSet("a", tolerateAll)},
			pods:   []corev1.Pod{pod("b", true, nil)},
			reason: reasonUnscheduled, message: "kube-system/a"},
		"a pod that is not ready": {
			sets: []appsv1.DaemonSet{daemonSet("a", tolerateAll)}, pods: []corev1.Pod{pod("a", false, nil)},
			reason: reasonUnready, message: "kube-system/a-x",
		},
		"a pod of no DaemonSet": {pods: []corev1.Pod{pod("", false, nil)}, reason: reasonUnready},
		"scheduling comes before ready": {
			sets: []appsv1.DaemonSet{daemonSet("a", tolerateAll)}, pods: []corev1.Pod{pod("b", false, nil)},
			reason: reasonUnscheduled,
		},
		"a driver is missing": {
			pods: []corev1.Pod{pod("a", true, waits)}, drivers: []string{"disk.csi"}, reason: reasonDrivers, message: "file.csi",
		},
		"no driver is registered": {
			pods: []corev1.Pod{pod("a", true, waits)}, reason: reasonDrivers, message: "disk.csi, file.csi",
		},
		"all drivers are registered": {
			pods: []corev1.Pod{pod("a", true, waits)}, drivers: []string{"x", "file.csi", "disk.csi"},
		},
		"ready comes before the drivers": {pods: []corev1.Pod{pod("a", false, waits)}, reason: reasonUnready},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(observed{node: theNode(), daemonSets: tc.sets, pods: tc.pods, drivers: tc.drivers})
			if got.reason != tc.reason || !strings.Contains(got.message, tc.message) {
				t.Errorf("judge() = %+v, want %s, %q", got, tc.reason, tc.message)
			}
		})
	}
}

func TestBelongsOn(t *testing.T) {
	affinity := func(terms ...corev1.NodeSelectorTerm) func(*appsv1.DaemonSet) {
		return func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Affinity = &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
				},
			}
		}
	}
	label := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: key, Operator: op, Values: values,
		}}}
	}
	name := func(n string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{n},
		}}}
	}
	tolerate := func(tolerations ...corev1.Toleration) func(*appsv1.DaemonSet) {
		return func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Tolerations = tolerations }
	}
	taints := func(taints ...corev1.Taint) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = taints }
	}
	for title, tc := range map[string]struct {
		set  func(*appsv1.DaemonSet)
		node func(*corev1.Node)
		want bool
	}{
		"no limits":           {want: true},
		"the node's name":     {set: func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeName = "n" }, want: true},
		"another node's name": {set: func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeName = "m" }},
		"selector matches": {
			set: func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"} }, want: true,
		},
		"selector does not match": {
			set: func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "b"} },
		},
		"affinity: one of the terms": {set: affinity(label("zone", "In", "b"), label("zone", "In", "a", "c")), want: true},
		"affinity: no term":          {set: affinity(label("zone", "NotIn", "a"), label("x", "Exists"))},
		"affinity: absent label":     {set: affinity(label("x", "DoesNotExist")), want: true},
		"affinity: number": {
			set: affinity(label("size", "Gt", "3")), node: func(n *corev1.Node) { n.Labels["size"] = "4" }, want: true,
		},
		"affinity: an empty term":   {set: affinity(corev1.NodeSelectorTerm{})},
		"affinity: the node's name": {set: affinity(name("n")), want: true},
		"affinity: another name":    {set: affinity(name("m"))},
		"taint":                     {node: taints(corev1.Taint{Key: "a", Value: "1", Effect: "NoSchedule"})},
		"preference only":           {node: taints(corev1.Taint{Key: "a", Effect: "PreferNoSchedule"}), want: true},
		"tolerated value": {
			node: taints(corev1.Taint{Key: "a", Value: "1", Effect: "NoSchedule"}),
			set:  tolerate(corev1.Toleration{Key: "a", Value: "1"}), want: true,
		},
		"another value": {
			node: taints(corev1.Taint{Key: "a", Value: "1", Effect: "NoSchedule"}),
			set:  tolerate(corev1.Toleration{Key: "a", Value: "2"}),
		},
		"another effect": {
			node: taints(corev1.Taint{Key: "a", Effect: "NoExecute"}),
			set:  tolerate(corev1.Toleration{Key: "a", Operator: "Exists", Effect: "NoSchedule"}),
		},
		"taints that every DaemonSet tolerates": {node: taints(corev1.Taint{
			Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule",
		},
			corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"},
			corev1.Taint{Key: "node.kubernetes.io/network-unavailable", Effect: "NoSchedule"}), want: true},
	} {
		t.Run(title, func(t *testing.T) {
			d := daemonSet("a")
			if tc.set != nil {
				tc.set(&d)
			}
			n := theNode(taints())
			if tc.node != nil {
				tc.node(n)
			}
			if got := belongsOn(&d, n); got != tc.want {
				t.Errorf("belongsOn() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTaintIsRemovedOnceReady(t *testing.T) {
	ctx := context.Background()
	set, p := daemonSet("a", tolerateAll), pod("a", true, map[string]string{annotationWaitForCSI + "x": "d"})
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).
		WithIndex(&corev1.Pod{}, indexNode,
			func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithObjects(theNode(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, other) }), &set, &p).Build()
	recorder := events.NewFakeRecorder(10)
	r := &Readiness{Target: c, Reader: c, Recorder: recorder}
	step := func() reconcile.Result {
		t.Helper()
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "n"}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := step(); result.RequeueAfter != recheckDrivers {
		t.Errorf("result = %+v, want to check again", result)
	}
	if got := <-recorder.Events; !strings.Contains(got, reasonDrivers) {
		t.Errorf("event %q, want %s", got, reasonDrivers)
	}
	csi := &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", NodeID: "n"}}},
	}
	if err := c.Create(ctx, csi); err != nil {
		t.Fatal(err)
	}
	step()
	n := &corev1.Node{}
	if err := c.Get(ctx, types.NamespacedName{Name: "n"}, n); err != nil {
		t.Fatal(err)
	}
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "other" {
		t.Errorf("taints %v, want only the other one", n.Spec.Taints)
	}
	if got := <-recorder.Events; !strings.Contains(got, reasonReady) {
		t.Errorf("event %q, want %s", got, reasonReady)
	}
}

func TestDelays(t *testing.T) {
	ctx := context.Background()
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	for _, name := range []string{"c", "a", "b", "d"} {
		builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	c := builder.Build()
	if _, err := (&Delay{Target: c, Max: 5 * time.Minute}).Reconcile(ctx, reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "0s", "b": "1m15s", "c": "2m30s", "d": "3m45s"} {
		n := &corev1.Node{}
		if err := c.Get(ctx, types.NamespacedName{Name: name}, n); err != nil {
			t.Fatal(err)
		}
		if got := n.Annotations[AnnotationDelay]; got != want {
			t.Errorf("delay of %s is %q, want %q", name, got, want)
		}
	}
}
