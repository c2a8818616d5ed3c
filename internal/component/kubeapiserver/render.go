package kubeapiserver

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/vpnseedserver"
	"hortus.dev/hortus/internal/encryption"
)

// Name of the Deployment, the Service and the TLSRoute.
const Name = "kube-apiserver"

// Port of the Service and of the process. They have to be equal, since the Shoot's `kubernetes` Service gets the port
// of the process together with the address of the Service.
const Port = 443

// Names of the objects that carry configuration. They are followed by a hash of the content.
const (
	configMapName        = "kube-apiserver-config"
	EncryptionSecretName = "kube-apiserver-etcd-encryption-configuration"
)

// EncryptionVolume is the volume of the pods that has the encryption configuration.
const EncryptionVolume = "etcd-encryption"

// Keys of the Secret with the encryption configuration and of the ConfigMap.
const (
	KeyEncryption     = "encryption-configuration.yaml"
	keyAuthentication = "authentication.yaml"
	keyAdmission      = "admission.yaml"
	keyEgress         = "egress-selector.yaml"
	keyAudit          = "audit-policy.yaml"
	keyAuthorization  = "authorization.yaml"
)

const (
	pathConfig         = "/etc/kubernetes/config"
	pathEncryption     = "/etc/kubernetes/etcd-encryption"
	pathServer         = "/srv/kubernetes/apiserver"
	pathClientCA       = "/srv/kubernetes/ca-client"
	pathEtcdCA         = "/srv/kubernetes/etcd/ca"
	pathEtcdClient     = "/srv/kubernetes/etcd/client"
	pathFrontProxyCA   = "/srv/kubernetes/ca-front-proxy"
	pathAggregator     = "/srv/kubernetes/aggregator"
	pathServiceAccount = "/srv/kubernetes/service-account-key"
	pathKeyBundle      = "/srv/kubernetes/service-account-key-bundle"
	pathKubeletCA      = "/srv/kubernetes/ca-kubelet"
	pathKubeletClient  = "/srv/kubernetes/apiserver-kubelet"
	pathVPNCA          = "/srv/kubernetes/ca-vpn"
	pathVPNClient      = "/srv/kubernetes/http-proxy"
)

// Secrets names the Secrets of the secrets manager that the server mounts.
type Secrets struct {
	Server, ClientCABundle         string
	EtcdCABundle, EtcdClient       string
	FrontProxyCABundle, Aggregator string
	ServiceAccountKey, KeyBundle   string
	KubeletCABundle, KubeletClient string // Only with workers.
	VPNCABundle, VPNClient         string
}

// Values is the input of the rendering.
type Values struct {
	// EtcdMembers is the number of members of etcd; 0 means 1.
	EtcdMembers int
	Namespace   string
	Image       string
	Replicas    int32
	// AdvertiseIP is the cluster IP of the Service.
	AdvertiseIP string
	// ExternalHost is the name under which users reach the server.
	ExternalHost string
	// ServiceCIDR is the range of the Shoot's services.
	ServiceCIDR string
	// Issuer of service account tokens, a URL. Tokens of AcceptedIssuers are valid, too.
	Issuer          string
	AcceptedIssuers []string
	// Size of the Shoot bounds the memory.
	Size component.Size
	// Workers reports whether there are nodes, reached through the tunnel.
	Workers bool
	Secrets Secrets
	// Encryption configures how objects are stored. Secrets must be encrypted.
	Encryption encryption.Config
	// Authentication is the user's AuthenticationConfiguration in YAML; empty if there is none.
	Authentication string
	// AuditPolicy is the user's in YAML; empty for the default one.
	AuditPolicy string
	// Authorization is the user's AuthorizationConfiguration in YAML, which has webhooks only; empty if there is none.
	// AuthorizationKubeconfigs are those of the webhooks by their names.
	Authorization            string
	AuthorizationKubeconfigs map[string][]byte
	// Config is the Shoot's, defaulted; nil counts as empty.
	Config *corev1beta1.KubeAPIServerConfig
}

// Service returns the Service. The server advertises the proxy address to its cluster.
func Service(namespace, proxyAddress string) *corev1.Service {
	annotations := component.APIServerReachableFrom()
	annotations[component.AnnotationExport], annotations[component.AnnotationProxyAddress] = component.ExportAll,
		proxyAddress
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name, Namespace: namespace, Labels: component.Labels(Name),
			Annotations: annotations,
		},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: component.Selector(Name),
			Ports: []corev1.ServicePort{{
				Name: Name, Port: Port, TargetPort: intstr.FromInt32(Port), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}

// DNSNames are the names that the server's certificate has to carry besides the external ones.
func DNSNames(namespace string) []string {
	names := []string{"localhost"}
	for host, ns := range map[string]string{Name: namespace, "kubernetes": "default"} {
		names = append(names, host, host+"."+ns, host+"."+ns+".svc", host+"."+ns+".svc.cluster.local")
	}
	slices.Sort(names)
	return names
}

// Route returns the TLSRoute that makes the seed's gateway forward connections for the hosts.
func Route(namespace, gatewayNamespace, gatewayName string, hosts []string) *gatewayv1.TLSRoute {
	route := &gatewayv1.TLSRoute{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: namespace, Labels: component.Labels(Name)},
		Spec: gatewayv1.TLSRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{
				Group:     ptr.To(gatewayv1.Group(gatewayv1.GroupName)),
				Kind:      ptr.To(gatewayv1.Kind("Gateway")),
				Namespace: ptr.To(gatewayv1.Namespace(gatewayNamespace)),
				Name:      gatewayv1.ObjectName(gatewayName),
			}}},
			Rules: []gatewayv1.TLSRouteRule{{BackendRefs: []gatewayv1.BackendRef{{
				BackendObjectReference: gatewayv1.BackendObjectReference{
					Group: ptr.To(gatewayv1.Group("")),
					Kind:  ptr.To(gatewayv1.Kind("Service")),
					Name:  Name,
					Port:  ptr.To(gatewayv1.PortNumber(Port)),
				}, Weight: ptr.To(int32(1))}}}},
		},
	}
	for _, h := range hosts {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(h))
	}
	return route
}

// Objects are the result of Render, in the order in which they have to be applied.
type Objects struct {
	ConfigMap           *corev1.ConfigMap
	EncryptionSecret    *corev1.Secret
	AuthorizationSecret *corev1.Secret // Nil without webhooks.
	Deployment          *appsv1.Deployment
}

// All lists the objects.
func (o *Objects) All() []client.Object {
	all := []client.Object{o.ConfigMap, o.EncryptionSecret}
	if o.AuthorizationSecret != nil {
		all = append(all, o.AuthorizationSecret)
	}
	return append(all, o.Deployment)
}

// Render returns the configuration and the Deployment. It fails on configuration of the user that cannot be read.
func Render(v Values) (*Objects, error) {
	files, err := configFiles(v)
	if err != nil {
		return nil, err
	}
	if len(v.Encryption.Of("secrets")) < 2 {
		return nil, fmt.Errorf("render the encryption configuration: there is no key for secrets")
	}
	o := &Objects{
		ConfigMap: component.UniqueConfigMap(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: configMapName, Namespace: v.Namespace, Labels: component.Labels(Name)},
			Data:       files,
		}),
		// Each pod reads exactly the configuration that it was made for: what may be written depends on what all others
		// read. During a change only the configuration shows how objects were encrypted, so another seed needs it.
		EncryptionSecret: component.UniqueSecret(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: EncryptionSecretName, Namespace: v.Namespace, Labels: persistent(component.Labels(Name)),
			},
			Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{KeyEncryption: v.Encryption.Render()},
		}),
		AuthorizationSecret: authorizationSecret(v),
	}
	volumes := mounts(v, o.ConfigMap.Name, o.EncryptionSecret.Name)
	unique := []client.Object{o.ConfigMap, o.EncryptionSecret}
	if o.AuthorizationSecret != nil {
		volumes = append(volumes, component.SecretMount("authorization", o.AuthorizationSecret.Name, pathAuthorization))
		unique = append(unique, o.AuthorizationSecret)
	}
	w := component.Workload{
		Name:        Name,
		Namespace:   v.Namespace,
		Replicas:    v.Replicas,
		Image:       v.Image,
		Command:     []string{"/usr/local/bin/kube-apiserver"},
		Args:        flags(v, files),
		Ports:       []corev1.ContainerPort{{Name: "https", ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
		Mounts:      volumes,
		CPU:         "50m",
		Memory:      "256Mi",
		Size:        v.Size,
		MemoryLimit: v.Size.MemoryLimit("8Gi"),
		// While its etcd is unavailable, the server is unready; the period of this check determines how soon it gets requests
		// again.
		Health: component.Health{
			Port: Port, Scheme: corev1.URISchemeHTTPS, Startup: "/readyz", Liveness: "/livez", ReadinessPeriodSeconds: 3,
		},
		PriorityClass:  component.PriorityAPI,
		KubernetesRole: "apiserver",
		Mutable:        true,
		// All connections to destinations of tenants leave through the tunnel server.
		Reaches: []string{
			component.ReachDNS, component.ReachService(etcd.Name, etcd.ClientPort),
			component.ReachService(vpnseedserver.Name, vpnseedserver.ProxyPort),
			component.ReachService(vpnseedserver.Name, vpnseedserver.EgressPort),
		},
		References: component.References(unique...),
		// A new server is ready before an old one is removed, so that updates are not noticed.
		Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			},
		},
	}
	o.Deployment = w.Deployment()
	return o, nil
}

func mounts(v Values, configMap, encryptionSecret string) []component.Mount {
	s := v.Secrets
	m := []component.Mount{
		component.ConfigMapMount("config", configMap, pathConfig),
		component.SecretMount(EncryptionVolume, encryptionSecret, pathEncryption),
		component.SecretMount("server", s.Server, pathServer),
		component.SecretMount("ca-client", s.ClientCABundle, pathClientCA),
		component.SecretMount("ca-etcd", s.EtcdCABundle, pathEtcdCA),
		component.SecretMount("etcd-client", s.EtcdClient, pathEtcdClient),
		component.SecretMount("ca-front-proxy", s.FrontProxyCABundle, pathFrontProxyCA),
		component.SecretMount("aggregator", s.Aggregator, pathAggregator),
		component.SecretMount("service-account-key", s.ServiceAccountKey, pathServiceAccount),
		component.SecretMount("service-account-key-bundle", s.KeyBundle, pathKeyBundle),
		component.SecretMount("ca-vpn", s.VPNCABundle, pathVPNCA),
		component.SecretMount("http-proxy", s.VPNClient, pathVPNClient),
	}
	if v.Workers {
		m = append(m,
			component.SecretMount("ca-kubelet", s.KubeletCABundle, pathKubeletCA),
			component.SecretMount("kubelet-client", s.KubeletClient, pathKubeletClient),
		)
	}
	return m
}

func etcdURLs(v Values) string { return strings.Join(etcd.URLs(v.Namespace, v.EtcdMembers), ",") }

// persistent are labels of a Secret that has to survive the loss of the seed.
func persistent(labels map[string]string) map[string]string {
	labels[component.LabelPersist] = "true"
	return labels
}
