package machinecontrollermanager

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/image"
)

// Name of the Deployment, of its ServiceAccount in the seed and of the roles.
const Name = "machine-controller-manager"

// CommonName of the client certificate for the Shoot's API. A certificate exists before the API does, a token does not.
const CommonName = "gardener.cloud:system:" + Name

// configMapName holds the kubeconfig.
const configMapName = "machine-controller-manager-kubeconfig"

const (
	healthPort = 10258
	shootRole  = "gardener.cloud:target:" + Name
)

// Values is the input of the rendering.
type Values struct {
	Namespace string
	Image     string
	Replicas  int32
	Access    component.ClientAccess
	// Size of the Shoot bounds the memory.
	Size component.Size
}

// Render returns the objects for the seed; the Deployment is the last one.
func Render(v Values) []client.Object {
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: Name, Namespace: v.Namespace, Labels: component.Labels(Name)}
	}
	account := &corev1.ServiceAccount{ObjectMeta: meta()}
	role := &rbacv1.Role{ObjectMeta: meta(), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"machine.sapcloud.io"}, Resources: []string{"*"}, Verbs: all},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "patch", "update", "watch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"create", "get", "update"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"},
			Verbs: []string{"create", "patch", "update"}},
	}}
	kubeconfig := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: configMapName, Namespace: v.Namespace, Labels: component.Labels(Name)},
		Data:       map[string]string{"kubeconfig": component.GenericClientKubeconfig()},
	}
	binding := component.BindRole(v.Namespace, Name, Name, component.ServiceAccount(v.Namespace, Name))
	deployment := component.Workload{
		Name:      Name,
		Namespace: v.Namespace,
		Replicas:  v.Replicas,
		Image:     v.Image,
		Command:   []string{image.ControlPlane, "machine-controller-manager"},
		Args: []string{
			"--namespace=" + v.Namespace,
			"--target-kubeconfig=" + component.GenericKubeconfigPath + "/kubeconfig",
		},
		Ports:          []corev1.ContainerPort{{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP}},
		Mounts:         []component.Mount{v.Access.GenericMount(configMapName)},
		CPU:            "5m",
		Memory:         "32Mi",
		Size:           v.Size,
		MemoryLimit:    v.Size.MemoryLimit("1Gi"),
		Health:         component.Health{Port: healthPort, Startup: "/healthz", Liveness: "/healthz"},
		ServiceAccount: Name,
		PriorityClass:  component.PriorityControllers,
		Mutable:        true,
		PodLabels:      map[string]string{component.LabelRestart: "true"},
		Reaches: append([]string{component.ReachDNS, component.ReachAPIServer, component.ReachRuntimeAPI},
			component.Cloud...),
	}
	return []client.Object{account, role, binding, kubeconfig, deployment.Deployment()}
}

var all = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// ShootAccess returns the objects for the Shoot.
func ShootAccess() []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: shootRole}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{
				"nodes", "nodes/status", "endpoints", "replicationcontrollers", "pods", "persistentvolumes",
				"persistentvolumeclaims",
			}, Verbs: all},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
			{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
			{APIGroups: []string{"apps"}, Resources: []string{
				"replicasets", "statefulsets", "daemonsets", "deployments",
			}, Verbs: all},
			{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"},
				Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"},
				Verbs: []string{"delete", "get", "list", "watch"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: all},
		}},
		component.BindClusterRole(shootRole, shootRole, component.User(CommonName)),
		// Bootstrap tokens of new machines.
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: shootRole, Namespace: metav1.NamespaceSystem},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: all},
			}},
		component.BindRole(metav1.NamespaceSystem, shootRole, shootRole, component.User(CommonName)),
	}
}
