package kubecontrollermanager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
)

// Name of the Deployment.
const Name = "kube-controller-manager"

// CommonName of the client certificate; the built-in roles of Kubernetes know it.
const CommonName = "system:kube-controller-manager"

// configMapName holds the kubeconfig.
const configMapName = "kube-controller-manager-kubeconfig"

const (
	port               = 10257
	pathClientCA       = "/srv/kubernetes/ca-client"
	pathKubeletCA      = "/srv/kubernetes/ca-kubelet"
	pathServiceAccount = "/srv/kubernetes/service-account-key"
)

// Values is the input of the rendering.
type Values struct {
	Namespace string
	Image     string
	Replicas  int32
	Access    component.ClientAccess
	// Size of the Shoot bounds the memory.
	Size component.Size
	// ClientCASecret signs client certificates, KubeletCASecret (with workers) those of kubelets' servers.
	ClientCASecret, KubeletCASecret string
	ServiceAccountKey               string
	ServiceCIDR                     string
	// PodCIDR is the range that nodes get their part of; only with workers.
	PodCIDR string
	Workers bool
	// Config is the Shoot's, defaulted; nil counts as empty.
	Config *corev1beta1.KubeControllerManagerConfig
}

// Render returns the ConfigMap with the kubeconfig and the Deployment.
func Render(v Values) (*corev1.ConfigMap, *appsv1.Deployment) {
	mounts := []component.Mount{
		v.Access.Mount(configMapName),
		component.SecretMount("ca-client", v.ClientCASecret, pathClientCA),
		component.SecretMount("service-account-key", v.ServiceAccountKey, pathServiceAccount),
	}
	if v.Workers {
		mounts = append(mounts, component.SecretMount("ca-kubelet", v.KubeletCASecret, pathKubeletCA))
	}
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: configMapName, Namespace: v.Namespace, Labels: component.Labels(Name)},
		Data:       map[string]string{"kubeconfig": component.ClientKubeconfig()},
	}
	return config, component.Workload{
		Name:        Name,
		Namespace:   v.Namespace,
		Replicas:    v.Replicas,
		Image:       v.Image,
		Command:     []string{"/usr/local/bin/kube-controller-manager"},
		Args:        flags(v),
		Ports:       []corev1.ContainerPort{{Name: "https", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Mounts:      mounts,
		CPU:         "10m",
		Memory:      "64Mi",
		Size:        v.Size,
		MemoryLimit: v.Size.MemoryLimit("4Gi"),
		Health: component.Health{
			Port: port, Scheme: corev1.URISchemeHTTPS, Startup: "/healthz", Liveness: "/healthz",
		},
		PriorityClass:  component.PriorityControllers,
		KubernetesRole: "controller-manager",
		Mutable:        true,
		PodLabels:      map[string]string{component.LabelRestart: "true"},
		Reaches:        []string{component.ReachDNS, component.ReachAPIServer},
	}.Deployment()
}

func flags(v Values) []string {
	kubeconfig := component.ClientAccessPath + "/kubeconfig"
	signer := func(name, path string) []string {
		return []string{
			"--cluster-signing-" + name + "-cert-file=" + path + "/ca.crt", "--cluster-signing-" + name + "-key-file=" + path +
				"/ca.key",
		}
	}
	f := []string{
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=0.0.0.0",
		// When the program starts, a single client gets a service account and a token for each of some 35 controllers. With
		// the default of 20 requests per second that alone takes four seconds.
		"--kube-api-qps=100",
		"--kube-api-burst=200",
		"--cluster-name=" + v.Namespace,
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=true",
		"--leader-elect-lease-duration=" + component.ElectionLeaseDuration.String(),
		"--leader-elect-renew-deadline=" + component.ElectionRenewDeadline.String(),
		"--leader-elect-retry-period=" + component.ElectionRetryPeriod.String(),
		"--profiling=false",
		"--root-ca-file=" + component.ClientAccessPath + "/ca.crt",
		"--service-account-private-key-file=" + pathServiceAccount + "/id_rsa",
		"--service-cluster-ip-range=" + v.ServiceCIDR,
		"--use-service-account-credentials=true",
	}
	f = append(f, signer("kube-apiserver-client", pathClientCA)...)
	f = append(f, signer("legacy-unknown", pathClientCA)...)
	if v.Workers {
		f = append(f, "--allocate-node-cidrs=true", "--cluster-cidr="+v.PodCIDR,
			"--controllers=*,bootstrapsigner,tokencleaner")
		f = append(f, signer("kubelet-client", pathClientCA)...)
		f = append(f, signer("kubelet-serving", pathKubeletCA)...)
	} else {
		// Nothing runs in a cluster without nodes, so the controllers of nodes and pods are disabled.
		f = append(f, "--allocate-node-cidrs=false",
			"--controllers=*,-nodeipam,-nodelifecycle,-attachdetach,-persistentvolume-binder,-persistentvolume-expander,-ttl,-daemonset,-cloud-node-lifecycle")
		f = append(f, signer("kubelet-client", pathClientCA)...)
	}
	return append(f, specFlags(v)...)
}

func specFlags(v Values) []string {
	var f []string
	c := v.Config
	if c == nil {
		return nil
	}
	if len(c.FeatureGates) > 0 {
		var gates []string
		for _, k := range slices.Sorted(maps.Keys(c.FeatureGates)) {
			gates = append(gates, fmt.Sprintf("%s=%t", k, c.FeatureGates[k]))
		}
		f = append(f, "--feature-gates="+strings.Join(gates, ","))
	}
	if v.Workers && c.NodeCIDRMaskSize != nil {
		f = append(f, fmt.Sprintf("--node-cidr-mask-size=%d", *c.NodeCIDRMaskSize))
	}
	if v.Workers && c.NodeMonitorGracePeriod != nil {
		f = append(f, "--node-monitor-grace-period="+c.NodeMonitorGracePeriod.Duration.String())
	}
	if h := c.HorizontalPodAutoscalerConfig; h != nil {
		for _, d := range []struct {
			flag  string
			value *metav1.Duration
		}{
			{"cpu-initialization-period", h.CPUInitializationPeriod},
			{"downscale-stabilization", h.DownscaleStabilization},
			{"initial-readiness-delay", h.InitialReadinessDelay},
			{"sync-period", h.SyncPeriod},
		} {
			if d.value != nil {
				f = append(f, "--horizontal-pod-autoscaler-"+d.flag+"="+d.value.Duration.String())
			}
		}
		if h.Tolerance != nil {
			f = append(f, fmt.Sprintf("--horizontal-pod-autoscaler-tolerance=%g", *h.Tolerance))
		}
	}
	return f
}
