package osc

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/nodeagent/config"
)

const (
	nodeAgentRole     = "gardener-node-agent"
	groupBootstrap    = "system:bootstrappers"
	groupNodes        = "system:nodes"
	clusterRoleKind   = "ClusterRole"
	serviceNamespace  = metav1.NamespaceSystem
	approveNewNodes   = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
	approveKnownNodes = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
)

// Access returns the permissions in the cluster that node agents and kubelets need, for pools whose
// OperatingSystemConfigs are in the named Secrets: bootstrap tokens may ask for certificates, those of kubelets are
// approved by kube-controller-manager, those of node agents by the resource manager; node agents read their
// OperatingSystemConfig, mark their Node, and show by a Lease that they live.
func Access(secretNames []string) []client.Object {
	secretNames = slices.Clone(secretNames)
	slices.Sort(secretNames)
	agents := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: config.Group}}
	return []client.Object{
		bindCluster("gardener.cloud:bootstrap:create-csrs", "system:node-bootstrapper", groupBootstrap),
		bindCluster("gardener.cloud:bootstrap:approve-nodes", approveNewNodes, groupBootstrap),
		bindCluster("gardener.cloud:bootstrap:renew-nodes", approveKnownNodes, groupNodes),
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: clusterRoleKind},
			ObjectMeta: metav1.ObjectMeta{Name: nodeAgentRole},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "patch", "update"}},
				{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
				{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "delete"}},
				{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
				{
					APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
					Verbs: []string{"create", "get", "list", "watch"},
				},
			},
		},
		bindCluster(nodeAgentRole, nodeAgentRole, config.Group),
		&rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Name: nodeAgentRole, Namespace: serviceNamespace},
			Rules: []rbacv1.PolicyRule{
				{
					APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: secretNames,
					Verbs: []string{"get", "list", "watch"},
				},
				{
					APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
					Verbs: []string{"create", "get", "list", "watch", "patch", "update"},
				},
			},
		},
		&rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: nodeAgentRole, Namespace: serviceNamespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: nodeAgentRole},
			Subjects:   agents,
		},
	}
}

func bindCluster(name, role, group string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: clusterRoleKind, Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
}
