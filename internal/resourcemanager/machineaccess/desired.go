package machineaccess

import (
	"slices"
	"strings"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// label on the objects of a machine has the machine's name.
	label = "worker.hortus.dev/machine"
	// namePrefix of the objects of a machine; its name follows.
	namePrefix = "gardener.cloud:machine:"
	// userNode is the prefix of the user names of kubelets.
	userNode = "system:node:"
)

// Machine is what matters of a machine.
type Machine struct {
	Name string
	Node string // Name of its Node; "" until the machine controller knows it.
	Pool string
	// ConfigSecret is the Secret with the configuration of its pool.
	ConfigSecret string
	// SystemComponents tells whether the pool may run components of kube-system.
	SystemComponents bool
}

// Of reads a Machine.
func Of(m *machinev1alpha1.Machine) Machine {
	node := m.Spec.NodeTemplateSpec.Labels
	return Machine{
		Name: m.Name, Node: m.Labels[machinev1alpha1.NodeLabelKey], Pool: node[corev1beta1.LabelWorkerPool],
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
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: verbs}
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
			Subjects:   []rbacv1.Subject{user(corev1beta1.NodeAgentUserPrefix + m.Name), user(userNode + m.Node)},
		},
	}
}

// machineOf returns the machine whose objects have a name.
func machineOf(name string) string { return strings.TrimPrefix(name, namePrefix) }

// nodeOf returns the Node that the role of a machine is about, "" if somebody has changed the role.
func nodeOf(role *rbacv1.ClusterRole) string {
	for _, r := range role.Rules {
		if slices.Equal(r.Resources, []string{"nodes"}) && len(r.ResourceNames) == 1 {
			return r.ResourceNames[0]
		}
	}
	return ""
}
