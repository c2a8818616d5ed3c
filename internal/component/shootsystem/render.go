package shootsystem

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
)

// Names of the ManagedResources.
const (
	ResourceName          = "shoot-core-system"
	NamespaceResourceName = "shoot-core-namespaces"
)

const namespace = metav1.NamespaceSystem

// Users and groups that certificates define.
const (
	GroupAdmins         = "gardener.cloud:system:admins"
	GroupProjectAdmins  = "gardener.cloud:project:admins"
	GroupViewers        = "gardener.cloud:system:viewers"
	GroupProjectViewers = "gardener.cloud:project:viewers"
	// UserKubeletClient is the user of the API server at kubelets.
	UserKubeletClient = "system:kube-apiserver:kubelet"
)

const viewerRole = "gardener.cloud:system:read-only"

// Values is the input of the rendering.
type Values struct {
	// ClusterIdentity is unique among all clusters of all gardens.
	ClusterIdentity string
	// Info is the content of the ConfigMap shoot-info.
	Info map[string]string
	// Workers reports whether there are nodes.
	Workers bool
	// Definitions of kinds, for objects of extensions in a Shoot without an operator that acts on them.
	Definitions []*apiextensionsv1.CustomResourceDefinition
}

// Namespaces returns the Namespace kube-system with the label by which webhooks exclude it.
func Namespaces() []client.Object {
	return []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   namespace,
		Labels: map[string]string{"gardener.cloud/purpose": namespace},
		// Kubernetes owns it: only the label is ours.
		Annotations: map[string]string{"resources.gardener.cloud/keep-object": "true"},
	}}}
}

// Render returns the objects for the Shoot.
func Render(v Values) []client.Object {
	objects := []client.Object{
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: corev1beta1.ClusterIdentityName, Namespace: namespace},
			Data: map[string]string{
				corev1beta1.ClusterIdentityName: v.ClusterIdentity, corev1beta1.DataKeyOrigin: "shoot",
			},
		},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shoot-info", Namespace: namespace}, Data: v.Info},
		component.BindClusterRole("gardener.cloud:admins", "cluster-admin", component.Group(GroupAdmins),
			component.Group(GroupProjectAdmins)),
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: viewerRole},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: coreResourcesWithoutSecrets, Verbs: read},
				{APIGroups: otherGroups, Resources: []string{"*"}, Verbs: read},
			},
		},
		component.BindClusterRole("gardener.cloud:viewers", viewerRole, component.Group(GroupViewers),
			component.Group(GroupProjectViewers)),
	}
	objects = append(objects, placeholders(v.Definitions)...)
	if !v.Workers {
		return objects
	}
	for _, p := range priorityClasses {
		objects = append(objects, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: p.name}, Value: p.value, Description: "For system components of extensions.",
		})
	}
	return append(append(objects, policies()...),
		component.BindClusterRole("system:apiserver:kubelet", "system:kubelet-api-admin", component.User(UserKubeletClient)),
	)
}

// priorityClasses rank the pods of extensions in Shoots, below the classes of Kubernetes itself.
var priorityClasses = []struct {
	name  string
	value int32
}{
	{"gardener-shoot-system-900", 999999900},
	{"gardener-shoot-system-800", 999999800},
	{"gardener-shoot-system-700", 999999700},
	{"gardener-shoot-system-600", 999999600},
}

var read = []string{"get", "list", "watch"}

// coreResourcesWithoutSecrets lists what viewers may read in the core group; a wildcard would show Secrets.
var coreResourcesWithoutSecrets = []string{
	"bindings", "componentstatuses", "configmaps", "endpoints", "events", "limitranges", "namespaces", "namespaces/status",
	"nodes", "nodes/status",
	"persistentvolumeclaims", "persistentvolumeclaims/status", "persistentvolumes", "persistentvolumes/status", "pods",
	"pods/log", "pods/status",
	"podtemplates", "replicationcontrollers", "replicationcontrollers/scale", "replicationcontrollers/status",
	"resourcequotas",
	"resourcequotas/status", "serviceaccounts", "services", "services/status",
}

// otherGroups are Kubernetes' own groups besides the core group.
var otherGroups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "autoscaling", "batch",
	"certificates.k8s.io",
	"coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "metrics.k8s.io",
	"networking.k8s.io",
	"node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
}
