package vpnseedserver

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/networkpolicy"
	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

// Name of the Deployment and the Service; also the name in the certificate that both sides of the tunnel check.
const Name = "vpn-seed-server"

const (
	// ClientPort is the port for the Shoot's client, which connects through the gateway.
	ClientPort = 1194
	// ProxyPort is the port at which the API server requests connections to nodes, pods and services.
	ProxyPort = 9443
	// EgressPort is the port at which it requests connections to the outside.
	EgressPort = 9444
	// healthPort serves health.
	healthPort = 8080
)

const (
	// memoryLimit is the sum of the limits of the tunnel server, with some reserve: 2 MiB for the process, 95 MiB for
	// 1,000 connections through the tunnel that have carried much and 55 MiB for 500 to the outside (both measured),
	// and 32 MiB for data that connections hold while the API server does not read it. Idle it uses 2 MiB.
	memoryLimit = "256Mi"
	// softMemoryLimit is the memory use from which the Go runtime collects garbage more often instead of allocating
	// more.
	softMemoryLimit = "200MiB"
)

const (
	pathCert = "/etc/tunnel/server"
	pathCA   = "/etc/tunnel/ca"
	// pathWebhooks has the webhooks of extensions that the API server may call.
	pathWebhooks = "/etc/tunnel/webhooks"
)

// Values is the input of the rendering.
type Values struct {
	Namespace string
	Image     string
	Replicas  int32
	// ServerSecret has tls.crt and tls.key; CASecret the bundle of the VPN CA.
	ServerSecret string
	CASecret     string
	// Workers reports whether there are nodes. Without nodes the server has no tunnel, and all connections of the API
	// server go to the outside.
	Workers bool
	// OwnNetworks are the CIDRs of the Shoot, which are reached through the tunnel only. DeniedNetworks are the CIDRs
	// of the operator, which are not reached at all.
	OwnNetworks, DeniedNetworks []string
}

// DNSNames are the names that the server's certificate has to carry.
func DNSNames(namespace string) []string {
	return []string{
		Name, Name + "." + namespace, Name + "." + namespace + ".svc", Name + "." + namespace + ".svc.cluster.local",
	}
}

// Render returns the Service and the Deployment.
func Render(v Values) (*corev1.Service, *appsv1.Deployment) {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{
			Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP,
		}
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name, Namespace: v.Namespace, Labels: component.Labels(Name),
		},
		Spec: corev1.ServiceSpec{
			Selector: component.Selector(Name),
		},
	}
	clients := ""
	servicePorts := []corev1.ServicePort{port("http-proxy", ProxyPort), port("egress", EgressPort)}
	if v.Workers {
		clients = fmt.Sprintf(":%d", ClientPort)
		// The client comes through the gateway.
		service.Annotations = component.ReachableFrom(corev1beta1.RoleIngress)
		service.Annotations[component.AnnotationExport] = component.ExportAll
		servicePorts = append([]corev1.ServicePort{port("tunnel", ClientPort)}, servicePorts...)
	}
	service.Spec.Ports = servicePorts
	var ports []corev1.ContainerPort
	for _, p := range servicePorts {
		ports = append(ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.Port, Protocol: p.Protocol})
	}
	command := []string{
		"/usr/local/bin/tunnel", "server",
		"--client-address=" + clients,
		fmt.Sprintf("--proxy-address=:%d", ProxyPort),
		fmt.Sprintf("--egress-address=:%d", EgressPort),
		"--own-networks=" + strings.Join(v.OwnNetworks, ","),
		"--denied-networks=" + strings.Join(v.DeniedNetworks, ","),
		fmt.Sprintf("--health-address=:%d", healthPort),
		"--ca-file=" + pathCA + "/bundle.crt",
		"--cert-file=" + pathCert + "/tls.crt",
		"--key-file=" + pathCert + "/tls.key",
		"--exempt-targets-file=" + pathWebhooks + "/" + networkpolicy.WebhookTargetsKey,
	}
	reaches := []string{
		component.ReachDNS, resourcesv1alpha1.LabelNetworkPolicyToPublicNetworks,
		resourcesv1alpha1.LabelNetworkPolicyToPrivateNetworks,
	}
	reaches = append(reaches, component.ReachWebhooks...)
	if v.Workers {
		command = append(command, fmt.Sprintf("--exempt-targets=%s:%d", configuration.ServiceName, configuration.ServicePort))
		reaches = append(reaches, component.ReachService(configuration.ServiceName, configuration.Port))
	}
	// The seed's resource-manager makes the ConfigMap if there are such webhooks.
	webhooks := component.ConfigMapMount("webhooks", networkpolicy.WebhookTargetsName, pathWebhooks)
	webhooks.Source.ConfigMap.Optional = ptr.To(true)
	w := component.Workload{
		Name:      Name,
		Namespace: v.Namespace,
		Replicas:  v.Replicas,
		Image:     v.Image,
		Command:   command,
		Ports:     ports,
		Mounts: []component.Mount{
			component.SecretMount("server", v.ServerSecret, pathCert),
			component.SecretMount("ca", v.CASecret, pathCA),
			webhooks,
		},
		CPU:                "5m",
		Memory:             "8Mi",
		MemoryLimit:        memoryLimit,
		Env:                []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: softMemoryLimit}},
		Health:             component.Health{Port: healthPort, Startup: "/readyz", Liveness: "/healthz"},
		PriorityClass:      component.PriorityControllers,
		Mutable:            true,
		GracePeriodSeconds: 5,
		Reaches:            reaches,
	}
	return service, w.Deployment()
}
