package resourcemanager

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

// Name of the Deployment, the ServiceAccount and the roles.
const Name = "gardener-resource-manager"

// CommonName of the client certificate for the Shoot's API, in which it may do everything.
const CommonName = "gardener.cloud:system:" + Name

// configMapName holds the kubeconfig for the Shoot.
const configMapName = "gardener-resource-manager-kubeconfig"

const healthPort = 8081

// pathWebhooks has the certificate of the webhooks of a Shoot.
const pathWebhooks = "/etc/gardener-resource-manager/webhooks"

// Values is the input of the rendering.
type Values struct {
	Namespace string
	Image     string
	Replicas  int32
	// Access is the access to the Shoot's API; zero for the resource-manager of the seed.
	Access component.ClientAccess
	// Size of the Shoot bounds the memory; empty for the resource-manager of the seed.
	Size component.Size
	// Class of the ManagedResources; empty for those of a Shoot.
	Class string
	// Workers reports whether the Shoot has nodes.
	Workers bool
	// WebhookSecret has tls.crt and tls.key of the webhooks of a Shoot; only with workers.
	WebhookSecret string
	// SystemComponents are the tolerations of system components in the Shoot; only with workers.
	SystemComponents []corev1.Toleration
	// APIServerHost is the host name by which system components in the Shoot reach its API server; only with workers.
	APIServerHost string
	// MaxNodeAgentDelay is how long nodes spread a change of their configuration; only with workers.
	MaxNodeAgentDelay time.Duration
	// ClusterNetworks and BlockedNetworks of the seed decide about network policies; only for the resource-manager of the
	// seed.
	ClusterNetworks, BlockedNetworks []string
}

// Render returns the objects for the seed; the Deployment is the last one.
func Render(v Values) []client.Object {
	meta := metav1.ObjectMeta{Name: Name, Namespace: v.Namespace, Labels: component.Labels(Name)}
	objects := []client.Object{&corev1.ServiceAccount{ObjectMeta: meta}}
	command := []string{
		image.ControlPlane, "resource-manager",
		"--namespace=" + v.Namespace,
	}
	ports := []corev1.ContainerPort{{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP}}
	webhooks := corev1.ContainerPort{Name: "webhooks", ContainerPort: configuration.Port, Protocol: corev1.ProtocolTCP}
	var mounts []component.Mount
	reaches := []string{component.ReachDNS, component.ReachRuntimeAPI}
	if v.Class != "" {
		command = append(command, "--class="+v.Class)
		if len(v.ClusterNetworks) > 0 {
			command = append(command, "--cluster-networks="+strings.Join(v.ClusterNetworks, ","))
		}
		if len(v.BlockedNetworks) > 0 {
			command = append(command, "--blocked-networks="+strings.Join(v.BlockedNetworks, ","))
		}
		// The objects that gardenlets install may be of any kind, including roles, so all permissions are needed.
		objects = append(objects,
			component.BindClusterRole("gardener.cloud:"+Name, "cluster-admin", component.ServiceAccount(v.Namespace, Name)),
			configuration.OpenService(v.Namespace, component.Labels(Name), component.Selector(Name)),
			configuration.ForSeed(v.Namespace, component.Labels(Name)))
		ports = append(ports, webhooks)
	} else {
		command = append(command, "--target-kubeconfig="+component.ClientAccessPath+"/kubeconfig")
		if v.Workers {
			command = append(command, "--node-agent-max-delay="+v.MaxNodeAgentDelay.String(),
				"--webhook-cert-file="+pathWebhooks+"/tls.crt", "--webhook-key-file="+pathWebhooks+"/tls.key",
				"--system-component-tolerations="+list(v.SystemComponents),
				"--kubernetes-service-host="+v.APIServerHost)
			ports = append(ports, webhooks)
			mounts = append(mounts, component.SecretMount("webhooks", v.WebhookSecret, pathWebhooks))
			objects = append(objects,
				configuration.Service(v.Namespace, component.Labels(Name), component.Selector(Name)))
		}
		mounts = append(mounts, v.Access.Mount(configMapName))
		reaches = append(reaches, component.ReachAPIServer)
		objects = append(objects,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: configMapName, Namespace: v.Namespace, Labels: component.Labels(Name),
			},
				Data: map[string]string{"kubeconfig": component.ClientKubeconfig()}},
			&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"resources.gardener.cloud"}, Resources: []string{
					"managedresources", "managedresources/status",
				}, Verbs: []string{"get", "list", "patch", "update", "watch"}},
				{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"},
					Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"}},
				{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets", "daemonsets", "replicasets"},
					Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"batch"}, Resources: []string{"jobs", "cronjobs"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"machine.sapcloud.io"}, Resources: []string{"machines"},
					Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
					Verbs: []string{"create", "get", "list", "patch", "update", "watch"}},
				{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"},
					Verbs: []string{"create", "patch", "update"}},
			}},
			component.BindRole(v.Namespace, Name, Name, component.ServiceAccount(v.Namespace, Name)),
		)
	}
	several := v.Replicas > 1
	if several {
		command = append(command, "--leader-elect")
	}
	workload := component.Workload{
		Name:           Name,
		Namespace:      v.Namespace,
		Replicas:       v.Replicas,
		Image:          v.Image,
		Command:        command,
		Ports:          ports,
		Mounts:         mounts,
		CPU:            "5m",
		Memory:         "32Mi",
		Size:           v.Size,
		MemoryLimit:    v.Size.MemoryLimit("1Gi"),
		Health:         component.Health{Port: healthPort, Startup: "/readyz", Liveness: "/healthz"},
		ServiceAccount: Name,
		PriorityClass:  component.PriorityControllers,
		Reaches:        reaches,
		Spread:         several,
	}
	if several {
		objects = append(objects, workload.DisruptionBudget())
	}
	return append(objects, workload.Deployment())
}

// list is a value of a flag.
func list(tolerations []corev1.Toleration) string {
	out, err := json.Marshal(tolerations)
	if err != nil {
		panic(fmt.Sprintf("resourcemanager: encode %v: %v", tolerations, err)) // Plain values.
	}
	return string(out)
}

// WebhookDNSNames are the names that the certificate of a Shoot's webhooks has to carry.
func WebhookDNSNames(namespace string) []string { return configuration.DNSNames(namespace) }

// ShootWebhooks returns the object that registers the webhooks in a Shoot. The bundle has the CA of their certificate.
func ShootWebhooks(caBundle []byte) client.Object { return configuration.ForShoot(caBundle) }
