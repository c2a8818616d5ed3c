package machineaccess

import (
	"maps"
	"slices"
	"strings"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// label on the objects of a machine has the machine's name.
	label = "worker.hortus.dev/machine"
	// annotationNode on the role of a machine has the UID of its Node, as of the last time the machine existed.
	annotationNode = "worker.hortus.dev/node-uid"
	// namePrefix of the objects of a machine; its name follows.
	namePrefix = "gardener.cloud:machine:"
)

// Machine has what the permissions of a machine depend on.
type Machine struct {
	Name string
	Node string // Name of its Node; "" until the machine controller has set it.
	// Leaving reports whether the machine is being deleted.
	Leaving bool
	Pool    string
	// ConfigSecret is the Secret with the configuration of its pool.
	ConfigSecret string
	// SystemComponents reports whether the pool may run components of kube-system.
	SystemComponents bool
}

// Of reads a Machine.
func Of(m *machinev1alpha1.Machine) Machine {
	node := m.Spec.NodeTemplateSpec.Labels
	return Machine{
		Name: m.Name, Node: m.Labels[machinev1alpha1.NodeLabelKey], Leaving: !m.DeletionTimestamp.IsZero(),
		Pool:             node[corev1beta1.LabelWorkerPool],
		ConfigSecret:     node[corev1beta1.LabelWorkerNodeAgentSecretName],
		SystemComponents: node[corev1beta1.LabelWorkerPoolSystemComponents] == "true",
	}
}

// objects of a machine in the Shoot.
type objects struct {
	role    *rbacv1.ClusterRole
	binding *rbacv1.ClusterRoleBinding
}

// desired returns what a machine with a Node gets.
func desired(m Machine) objects {
	meta := metav1.ObjectMeta{Name: namePrefix + m.Name, Labels: map[string]string{label: m.Name}}
	rule := func(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: verbs,
		}
	}
	rules := []rbacv1.PolicyRule{
		rule("", "nodes", m.Node, "get", "list", "watch", "patch"),
		rule("coordination.k8s.io", "leases", corev1beta1.NodeAgentLeasePrefix+m.Node, "get", "update"),
	}
	if m.ConfigSecret != "" {
		rules = append(rules, rule("", "secrets", m.ConfigSecret, "get", "list", "watch"))
	}
	if m.Pool != "" {
		rules = append(rules, rule(corev1beta1.ClaimGroup, corev1beta1.ClaimPools, m.Pool, corev1beta1.ClaimVerb))
	}
	if m.SystemComponents {
		rules = append(rules, rule(corev1beta1.ClaimGroup, corev1beta1.ClaimSystemComponents, "true", corev1beta1.ClaimVerb))
	}
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
	}
	return objects{
		role: &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		binding: &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{
				user(corev1beta1.NodeAgentUserPrefix + m.Name), user(corev1beta1.KubeletUserPrefix + m.Node),
			},
		},
	}
}

// machineOf returns the machine whose objects have a name.
func machineOf(name string) string { return strings.TrimPrefix(name, namePrefix) }

// keep reports whether the rights of a machine that is gone stay: while the Node is there that it had, and no other one
// of the same name, which anybody with a copy of the kubelet's key could create. node is nil if there is none.
func keep(role *rbacv1.ClusterRole, node *corev1.Node) bool {
	return node != nil && node.Name == nodeOf(role) && role.Annotations[annotationNode] == string(node.UID)
}

// nodeOf returns the Node in the role of a machine, "" if a user has changed the role.
func nodeOf(role *rbacv1.ClusterRole) string {
	for _, r := range role.Rules {
		if slices.Equal(r.Resources, []string{"nodes"}) && len(r.ResourceNames) == 1 {
			return r.ResourceNames[0]
		}
	}
	return ""
}

// fit is how an object compares to what it should be.
type fit int

const (
	same fit = iota
	differs
	unfit // The difference is in an immutable field: the object has to be created again.
)

// adoptRole makes a role what it should be.
func adoptRole(current, want *rbacv1.ClusterRole) fit {
	f := adoptMeta(current, want)
	if !equality.Semantic.DeepEqual(current.Rules, want.Rules) || current.AggregationRule != nil {
		current.Rules, current.AggregationRule, f = want.Rules, nil, differs
	}
	return f
}

// adoptBinding makes a binding what it should be. Which role it is of can't be changed.
func adoptBinding(current, want *rbacv1.ClusterRoleBinding) fit {
	f := adoptMeta(current, want)
	if !equality.Semantic.DeepEqual(current.Subjects, want.Subjects) {
		current.Subjects, f = want.Subjects, differs
	}
	if current.RoleRef != want.RoleRef {
		f = unfit
	}
	return f
}

// adoptMeta sets labels and annotations; those of others stay.
func adoptMeta(current, want client.Object) fit {
	merged := func(have, want map[string]string) map[string]string {
		out := maps.Clone(have)
		if out == nil {
			out = map[string]string{}
		}
		maps.Copy(out, want)
		return out
	}
	f := same
	if labels := merged(current.GetLabels(), want.GetLabels()); !maps.Equal(labels, current.GetLabels()) {
		current.SetLabels(labels)
		f = differs
	}
	if annotations := merged(current.GetAnnotations(), want.GetAnnotations()); !maps.Equal(annotations,
		current.GetAnnotations()) {
		current.SetAnnotations(annotations)
		f = differs
	}
	return f
}
