package cloudcontroller

import (
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/provider/csi"
)

const (
	// AccessSecret has the token for the Shoot's API.
	AccessSecret   = "shoot-access-" + name
	credentialsDir = "/etc/cloudprovider"
	healthPort     = 10264
	memoryLimit    = "512Mi"
	shootRole      = "extensions.gardener.cloud:provider-local:" + name
)

// Values of the Deployment in a control plane namespace.
type Values struct {
	Namespace         string // Also the name of the cluster.
	Image             string
	Replicas          int32
	KubeconfigSecret  string // The kubeconfig that components with a token of the Shoot share.
	CredentialsSecret string
}

// ShootDeployment renders the process that serves a Shoot, for its control plane namespace.
func ShootDeployment(v Values) *appsv1.Deployment {
	return component.Workload{
		Name: name, Namespace: v.Namespace, Replicas: v.Replicas, Image: v.Image,
		Command: []string{image.ControlPlane, name},
		Args: []string{
			"--kubeconfig=" + component.GenericKubeconfigPath + "/kubeconfig",
			"--credentials-dir=" + credentialsDir,
			"--cluster-name=" + v.Namespace,
			"--health-address=:10264",
			"--volumes",
		},
		Mounts: []component.Mount{
			component.GenericKubeconfigMount(v.KubeconfigSecret, AccessSecret),
			component.SecretMount("cloudprovider", v.CredentialsSecret, credentialsDir),
		},
		CPU: "5m", Memory: "24Mi", MemoryLimit: memoryLimit,
		Health:        component.Health{Port: healthPort, Startup: "/healthz", Liveness: "/healthz"},
		PriorityClass: component.PriorityControllers,
		PodLabels:     map[string]string{component.LabelRestart: "true"},
		Reaches:       append([]string{component.ReachDNS, component.ReachAPIServer}, component.Cloud...),
	}.Deployment()
}

// ShootAccess renders what the process may do in a Shoot.
func ShootAccess() []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: shootRole}, Rules: rules()},
		component.BindClusterRole(shootRole, shootRole, component.ServiceAccount(metav1.NamespaceSystem, name)),
	}
}

func rules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"},
			Verbs: []string{"get", "list", "watch", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"services/status"}, Verbs: []string{"patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"},
			Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"},
			Verbs: []string{"create", "patch", "update"}},
	}, csi.Rules()...)
}
