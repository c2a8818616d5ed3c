package machineaccess

import (
	"testing"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

// theMachine is of a pool that may run components of the system.
func theMachine(node string) *machinev1alpha1.Machine {
	m := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "cp", Name: "m", Labels: map[string]string{}}}
	if node != "" {
		m.Labels[machinev1alpha1.NodeLabelKey] = node
	}
	m.Spec.NodeTemplateSpec.Labels = map[string]string{
		corev1beta1.LabelWorkerPool: "pool", corev1beta1.LabelWorkerNodeAgentSecretName: "gardener-node-agent-pool-1",
		corev1beta1.LabelWorkerPoolSystemComponents: "true",
	}
	return m
}

func TestDesired(t *testing.T) {
	all := desired(Of(theMachine("node")))
	golden.Objects(t, "system", all.role, all.binding)
	other := theMachine("node")
	delete(other.Spec.NodeTemplateSpec.Labels, corev1beta1.LabelWorkerPoolSystemComponents)
	few := desired(Of(other))
	golden.Objects(t, "no-system", few.role, few.binding)
}

func TestKeep(t *testing.T) {
	role := desired(Of(theMachine("node"))).role
	role.Annotations = map[string]string{annotationNode: "1"}
	foreign := role.DeepCopy()
	foreign.Rules = nil
	unnoted := role.DeepCopy()
	unnoted.Annotations = nil
	node := func(name string, uid types.UID) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	}
	for name, tc := range map[string]struct {
		role *rbacv1.ClusterRole
		node *corev1.Node
		want bool
	}{
		"the Node is there":                  {role, node("node", "1"), true},
		"the Node is gone":                   {role, nil, false},
		"another Node has the name":          {role, node("node", "2"), false},
		"the role has no Node":               {foreign, node("node", "1"), false},
		"the Node is unknown":                {unnoted, node("node", "1"), false},
		"the Node is unknown, without a UID": {role, node("node", ""), false},
	} {
		if got := keep(tc.role, tc.node); got != tc.want {
			t.Errorf("%s: keep() = %t", name, got)
		}
	}
}

func TestAdopt(t *testing.T) {
	want := desired(Of(theMachine("node")))
	for name, tc := range map[string]struct {
		change func(objects)
		want   [2]fit // Fit of the role and of the binding.
	}{
		"as they should be": {func(objects) {}, [2]fit{same, same}},
		"labels are gone":   {func(o objects) { o.role.Labels, o.binding.Labels = nil, nil }, [2]fit{differs, differs}},
		"another label": {func(o objects) {
			o.role.Labels, o.binding.Labels = map[string]string{label: "m", "a": "b"}, map[string]string{label: "x"}
		}, [2]fit{same, differs}},
		"more rules": {func(o objects) { o.role.Rules = append(o.role.Rules, rbacv1.PolicyRule{}) }, [2]fit{differs, same}},
		"aggregated": {func(o objects) { o.role.AggregationRule = &rbacv1.AggregationRule{} }, [2]fit{differs, same}},
		"more subjects": {func(o objects) {
			o.binding.Subjects = append(o.binding.Subjects, rbacv1.Subject{})
		}, [2]fit{same, differs}},
		"of another role": {func(o objects) { o.binding.RoleRef.Name = "x" }, [2]fit{same, unfit}},
	} {
		t.Run(name, func(t *testing.T) {
			current := objects{want.role.DeepCopy(), want.binding.DeepCopy()}
			tc.change(current)
			if got := [2]fit{adoptRole(current.role, want.role), adoptBinding(current.binding, want.binding)}; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if current.role.Labels[label] != "m" || len(current.role.Rules) != len(want.role.Rules) ||
				current.binding.Labels[label] != "m" || len(current.binding.Subjects) != len(want.binding.Subjects) {
				t.Errorf("adopted %+v, %+v", current.role, current.binding)
			}
		})
	}
}

func TestRightsFollowTheMachine(t *testing.T) {
	machines := runtime.NewScheme()
	if err := machinev1alpha1.AddToScheme(machines); err != nil {
		t.Fatal(err)
	}
	ctx, m := t.Context(), theMachine("")
	source := fake.NewClientBuilder().WithScheme(machines).WithObjects(m).Build()
	target := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	r := &Reconciler{Machines: source, Namespace: "cp", Grants: Grants{Target: target, Direct: target}}
	reconcileOnce := func() reconcile.Result {
		t.Helper()
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "cp", Name: "m"}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	rights := func() int {
		t.Helper()
		roles, bindings := &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}
		for _, list := range []client.ObjectList{roles, bindings} {
			if err := target.List(ctx, list); err != nil {
				t.Fatal(err)
			}
		}
		return len(roles.Items) + len(bindings.Items)
	}
	if reconcileOnce(); rights() != 0 {
		t.Errorf("%d objects before the node is known", rights())
	}
	m.Labels[machinev1alpha1.NodeLabelKey] = "node"
	if err := source.Update(ctx, m); err != nil {
		t.Fatal(err)
	}
	if reconcileOnce(); rights() != 2 {
		t.Errorf("%d objects, want a role and its binding", rights())
	}
	widened := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namePrefix + "m"}}
	if err := target.Get(ctx, client.ObjectKeyFromObject(widened), widened); err != nil {
		t.Fatal(err)
	}
	widened.Rules = append(widened.Rules,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}})
	if err := target.Update(ctx, widened); err != nil {
		t.Fatal(err)
	}
	reconcileOnce()
	if err := target.Get(ctx, client.ObjectKeyFromObject(widened), widened); err != nil || len(widened.Rules) != 5 {
		t.Errorf("%d rules after one was added: %v", len(widened.Rules), err)
	}

	// The node still exists, as in a move: the permissions stay.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "1"}}
	if err := target.Create(ctx, node); err != nil {
		t.Fatal(err)
	}
	if got := r.ofNode(ctx, node); len(got) != 1 || got[0].Name != "m" {
		t.Errorf("a new Node belongs to machines %v", got)
	}
	reconcileOnce()
	// A machine is deleted; its kubelet creates the Node again before the machine is gone.
	replace := func(uid types.UID) {
		t.Helper()
		if err := target.Delete(ctx, node); err != nil {
			t.Fatal(err)
		}
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: uid}}
		if err := target.Create(ctx, node); err != nil {
			t.Fatal(err)
		}
	}
	leaving := m.DeepCopy()
	leaving.Finalizers = []string{"a.example/b"}
	if err := source.Update(ctx, leaving); err != nil {
		t.Fatal(err)
	}
	if err := source.Delete(ctx, leaving); err != nil {
		t.Fatal(err)
	}
	replace("2")
	if reconcileOnce(); rights() != 2 {
		t.Errorf("%d objects while the machine exists", rights())
	}
	replace("1")
	if err := source.Get(ctx, client.ObjectKeyFromObject(m), leaving); err != nil {
		t.Fatal(err)
	}
	leaving.Finalizers = nil
	if err := source.Update(ctx, leaving); err != nil {
		t.Fatal(err)
	}
	if result := reconcileOnce(); rights() != 2 || result != (reconcile.Result{}) {
		t.Errorf("%d objects while the node exists, result %+v", rights(), result)
	}
	replace("2")
	if reconcileOnce(); rights() != 0 {
		t.Errorf("%d objects are left of a machine whose node was replaced", rights())
	}
}
