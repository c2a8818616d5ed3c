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

func TestRightsFollowTheMachine(t *testing.T) {
	machines := runtime.NewScheme()
	if err := machinev1alpha1.AddToScheme(machines); err != nil {
		t.Fatal(err)
	}
	ctx, m := t.Context(), theMachine("")
	source := fake.NewClientBuilder().WithScheme(machines).WithObjects(m).Build()
	target := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	r := &Reconciler{Machines: source, Namespace: "cp", Grants: Grants{Target: target}}
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
	widened.Rules = append(widened.Rules, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"},
	})
	if err := target.Update(ctx, widened); err != nil {
		t.Fatal(err)
	}
	reconcileOnce()
	if err := target.Get(ctx, client.ObjectKeyFromObject(widened), widened); err != nil || len(widened.Rules) != 5 {
		t.Errorf("%d rules after somebody added one: %v", len(widened.Rules), err)
	}

	// The node is still there, as in a move: the rights stay.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	if err := target.Create(ctx, node); err != nil {
		t.Fatal(err)
	}
	if err := source.Delete(ctx, m); err != nil {
		t.Fatal(err)
	}
	if result := reconcileOnce(); rights() != 2 || result.RequeueAfter == 0 {
		t.Errorf("%d objects while the node is there, again after %s", rights(), result.RequeueAfter)
	}
	if err := target.Delete(ctx, node); err != nil {
		t.Fatal(err)
	}
	if reconcileOnce(); rights() != 0 {
		t.Errorf("%d objects are left of a machine without a node", rights())
	}
}
