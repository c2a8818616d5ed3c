package osc

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	nodeAgentRole    = "gardener-node-agent"
	clusterRoleKind  = "ClusterRole"
	serviceNamespace = metav1.NamespaceSystem
)

// Access returns the permissions that all node agents and kubelets share in the cluster: bootstrap tokens and machines
// request certificates, and node agents create events and the Lease for their heartbeat. The resource-manager approves
// certificates and grants each machine access to its own objects (package machineaccess); policies bound what machines
// write.
func Access() []client.Object {
	agents := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: corev1beta1.NodeAgentsGroup}}
	return append([]client.Object{
		bindCluster("gardener.cloud:bootstrap:create-csrs", "system:node-bootstrapper", corev1beta1.BootstrappersGroup),
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: clusterRoleKind},
			ObjectMeta: metav1.ObjectMeta{Name: nodeAgentRole},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
				{
					APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
					Verbs: []string{"create", "get", "list", "watch"},
				},
			},
		},
		bindCluster(nodeAgentRole, nodeAgentRole, corev1beta1.NodeAgentsGroup),
		&rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Name: nodeAgentRole, Namespace: serviceNamespace},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			},
		},
		&rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: nodeAgentRole, Namespace: serviceNamespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: nodeAgentRole},
			Subjects:   agents,
		},
	}, policies()...)
}

func bindCluster(name, role, group string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: clusterRoleKind, Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
}
