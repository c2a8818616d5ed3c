package gateway

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	role        = "hortus.dev:gateway"
	healthPort  = 8081
	metricsPort = 8080
)

// Values is what the rendering depends on.
type Values struct {
	Image    string
	Replicas int32
	// Annotations of the load balancer Service, from the Seed's settings.
	Annotations map[string]string
}

// Render returns the objects for the seed; the Service and the Deployment are the last ones.
func Render(v Values) []client.Object {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP}
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
	deployment := component.Workload{
		Name:           Name,
		Namespace:      Namespace,
		Replicas:       v.Replicas,
		Image:          v.Image,
		Command:        []string{"/usr/local/bin/hortus", "gateway", "--gateway=" + Namespace + "/" + Name},
		Ports:          []corev1.ContainerPort{{Name: "tls", ContainerPort: PortTLS, Protocol: corev1.ProtocolTCP}, {Name: "proxy", ContainerPort: PortProxy, Protocol: corev1.ProtocolTCP}, {Name: "connect", ContainerPort: PortConnect, Protocol: corev1.ProtocolTCP}, {Name: "metrics", ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP}},
		CPU:            "10m",
		Memory:         "32Mi",
		Health:         component.Health{Port: healthPort, Startup: "/readyz", Liveness: "/healthz"},
		ServiceAccount: Name,
		PriorityClass:  "gardener-system-critical",
		Reaches: []string{
			component.ReachRuntimeAPI, component.ReachAllAPIServers, component.ReachServiceOf(component.AllShoots, "vpn-seed-server", 1194),
		},
	}.Deployment()
	deployment.Labels = labels
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: map[string]string{component.LabelRole: component.RoleGateway}}},
		&corev1.ServiceAccount{ObjectMeta: meta(Namespace, Name)},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"gateway.networking.k8s.io"}, Resources: []string{"tlsroutes"}, Verbs: []string{"get", "list", "watch"}},
		}},
		component.BindClusterRole(role, role, component.ServiceAccount(Namespace, Name)),
		service,
		deployment,
	}
}
