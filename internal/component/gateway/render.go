package gateway

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
)

// Namespace of the gateway, and Name of the Gateway that TLSRoutes name as parent and of the Service.
const (
	Namespace = "hortus-gateway"
	Name      = "gateway"
)

// Ports of the Service.
const (
	PortTLS     = 443
	PortProxy   = 8443
	PortConnect = 8132
)

const (
	role       = "hortus.dev:gateway"
	healthPort = 8081
)

const (
	// memoryLimit is more than the gateway takes (TestMemorySuffices in internal/gateway): 1,200 MiB for the process,
	// its soft limit, and 2,500 MiB of the kernel's buffers if none of 20,000 clients reads what it is sent (128 KiB
	// each). So many connections belong to many tenants: n tenants can have at most n/(n+2) of all connections.
	memoryLimit = "4Gi"
	// softMemoryLimit is the memory use from which the Go runtime collects garbage more often instead of allocating
	// more; it does not count the kernel's buffers. The process takes 1,000 MiB for 20,000 connections that carry much
	// (51 KiB each; 380 MiB if they are idle, as measured), and, as estimated, 60 MiB for itself and the objects it
	// watches, and 120 MiB for 3,000 connections that have sent a long header and no more.
	softMemoryLimit = "1200MiB"
)

// gracePeriodSeconds is more than the gateway takes on shutdown: 5 s in which it still accepts connections, until the
// Service sends it none, and 10 s for those that are open.
const gracePeriodSeconds = 30

// Values is the input of the rendering.
type Values struct {
	Image    string
	Replicas int32
	// Annotations of the load balancer Service, from the Seed's settings.
	Annotations map[string]string
}

// Render returns the objects for the seed; the Service and the Deployment are the last ones.
func Render(v Values) []client.Object {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{
			Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP,
		}
	}
	labels := map[string]string{component.LabelApp: Name}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	service := &corev1.Service{
		ObjectMeta: meta(Namespace, Name),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: component.Selector(Name),
			Ports:    []corev1.ServicePort{port("tls", PortTLS), port("proxy", PortProxy), port("connect", PortConnect)},
		},
	}
	service.Annotations = component.ReachableByEverybody(PortTLS, PortProxy, PortConnect)
	maps.Copy(service.Annotations, v.Annotations)
	containerPort := func(name string, number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
	}
	workload := component.Workload{
		Name:      Name,
		Namespace: Namespace,
		Replicas:  v.Replicas,
		Image:     v.Image,
		Command:   []string{"/usr/local/bin/hortus", "gateway", "--gateway=" + Namespace + "/" + Name},
		Ports: []corev1.ContainerPort{
			containerPort("tls", PortTLS), containerPort("proxy", PortProxy), containerPort("connect", PortConnect),
		},
		// Requests are shares when CPU is short: all control planes wait for the gateway, so it has more than any of them.
		CPU:            "200m",
		Memory:         "32Mi",
		MemoryLimit:    memoryLimit,
		Env:            []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: softMemoryLimit}},
		Health:         component.Health{Port: healthPort, Startup: "/readyz", Liveness: "/healthz"},
		ServiceAccount: Name,
		PriorityClass:  "gardener-system-critical",
		Reaches: []string{
			component.ReachRuntimeAPI, component.ReachAllAPIServers,
			component.ReachServiceOf(component.AllShoots, "vpn-seed-server", 1194),
		},
		Spread:             true,
		Strategy:           component.ReplaceWithoutGap(),
		GracePeriodSeconds: gracePeriodSeconds,
	}
	deployment, budget := workload.Deployment(), workload.DisruptionBudget()
	deployment.Labels, budget.Labels = labels, labels
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: map[string]string{
			component.LabelRole: corev1beta1.RoleIngress, "pod-security.kubernetes.io/enforce": "restricted",
		}}},
		&corev1.ServiceAccount{ObjectMeta: meta(Namespace, Name)},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"gateway.networking.k8s.io"}, Resources: []string{"tlsroutes"},
				Verbs: []string{"get", "list", "watch"}},
		}},
		component.BindClusterRole(role, role, component.ServiceAccount(Namespace, Name)),
		budget,
		service,
		deployment,
	}
}
