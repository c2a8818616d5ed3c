package vpnseedserver

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component"
)

// Name of the Deployment and the Service; also the name in the certificate that both sides of the tunnel check.
const Name = "vpn-seed-server"

const (
	// ClientPort is where the Shoot's client arrives, by way of the gateway.
	ClientPort = 1194
	// ProxyPort is where the API server asks for connections.
	ProxyPort = 9443
	// EgressPort is where the API server asks for connections to addresses outside the Shoot.
	EgressPort = 9444
	// healthPort serves health and metrics.
	healthPort = 8080
)

const (
	pathCert = "/etc/tunnel/server"
	pathCA   = "/etc/tunnel/ca"
)

// Values is what the rendering depends on.
type Values struct {
	Namespace string
	Image     string
	Replicas  int32
	// ServerSecret has tls.crt and tls.key; CASecret the bundle of the VPN CA.
	ServerSecret string
	CASecret     string
}

// DNSNames are the names that the server's certificate has to carry.
func DNSNames(namespace string) []string {
	return []string{Name, Name + "." + namespace, Name + "." + namespace + ".svc", Name + "." + namespace + ".svc.cluster.local"}
}

// Render returns the Service and the Deployment.
func Render(v Values) (*corev1.Service, *appsv1.Deployment) {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP}
	}
	annotations := component.ReachableFrom(component.RoleGateway)
	annotations[component.AnnotationExport] = component.ExportAll
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name, Namespace: v.Namespace, Labels: component.Labels(Name),
			Annotations: annotations,
		},
		Spec: corev1.ServiceSpec{
			Selector: component.Selector(Name),
			Ports:    []corev1.ServicePort{port("tunnel", ClientPort), port("http-proxy", ProxyPort)},
		},
	}
	w := component.Workload{
		Name:      Name,
		Namespace: v.Namespace,
		Replicas:  v.Replicas,
		Image:     v.Image,
		Command: []string{
			"/usr/local/bin/hortus", "tunnel", "server",
			fmt.Sprintf("--client-address=:%d", ClientPort),
			fmt.Sprintf("--proxy-address=:%d", ProxyPort),
			fmt.Sprintf("--health-address=:%d", healthPort),
			"--ca-file=" + pathCA + "/bundle.crt",
			"--cert-file=" + pathCert + "/tls.crt",
			"--key-file=" + pathCert + "/tls.key",
		},
		Ports:              []corev1.ContainerPort{{Name: "tunnel", ContainerPort: ClientPort, Protocol: corev1.ProtocolTCP}, {Name: "http-proxy", ContainerPort: ProxyPort, Protocol: corev1.ProtocolTCP}},
		Mounts:             []component.Mount{component.SecretMount("server", v.ServerSecret, pathCert), component.SecretMount("ca", v.CASecret, pathCA)},
		CPU:                "5m",
		Memory:             "24Mi",
		Health:             component.Health{Port: healthPort, Startup: "/readyz", Liveness: "/healthz"},
		PriorityClass:      component.PriorityControllers,
		GracePeriodSeconds: 5,
		Reaches:            []string{component.ReachDNS, resourcesv1alpha1.LabelNetworkPolicyToPublicNetworks, resourcesv1alpha1.LabelNetworkPolicyToPrivateNetworks},
	}
	return service, w.Deployment()
}
