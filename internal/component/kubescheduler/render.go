package kubescheduler

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
)

// Name of the Deployment.
const Name = "kube-scheduler"

// CommonName of the client certificate; the built-in roles of Kubernetes know it.
const CommonName = "system:kube-scheduler"

// configMapName holds the kubeconfig and the scheduler's configuration.
const configMapName = "kube-scheduler-config"

const (
	port       = 10259
	pathConfig = "/var/lib/kube-scheduler-config"
)

// Values is the input of the rendering.
type Values struct {
	Namespace string
	Image     string
	Replicas  int32
	Access    component.ClientAccess
	// Size of the Shoot bounds the memory.
	Size component.Size
	// Config is the Shoot's, defaulted; nil counts as empty.
	Config *corev1beta1.KubeSchedulerConfig
}

// Render returns the ConfigMap and the Deployment.
func Render(v Values) (*corev1.ConfigMap, *appsv1.Deployment) {
	config := configuration(v)
	checksum := sha256.Sum256([]byte(config))
	kubeconfig := component.ClientAccessPath + "/kubeconfig"
	flags := []string{
		"--config=" + pathConfig + "/config.yaml",
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=0.0.0.0",
	}
	if c := v.Config; c != nil && len(c.FeatureGates) > 0 {
		var gates []string
		for _, k := range slices.Sorted(maps.Keys(c.FeatureGates)) {
			gates = append(gates, fmt.Sprintf("%s=%t", k, c.FeatureGates[k]))
		}
		flags = append(flags, "--feature-gates="+strings.Join(gates, ","))
	}
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: configMapName, Namespace: v.Namespace, Labels: component.Labels(Name)},
		Data:       map[string]string{"config.yaml": config, "kubeconfig": component.ClientKubeconfig()},
	}
	return configMap, component.Workload{
		Name:      Name,
		Namespace: v.Namespace,
		Replicas:  v.Replicas,
		Image:     v.Image,
		Command:   []string{"/usr/local/bin/kube-scheduler"},
		Args:      flags,
		Ports:     []corev1.ContainerPort{{Name: "https", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Mounts: []component.Mount{
			v.Access.Mount(configMapName), component.ConfigMapMount("config", configMapName, pathConfig),
		},
		CPU:         "10m",
		Memory:      "48Mi",
		Size:        v.Size,
		MemoryLimit: v.Size.MemoryLimit("1Gi"),
		Health: component.Health{
			Port: port, Scheme: corev1.URISchemeHTTPS, Startup: "/healthz", Liveness: "/healthz",
		},
		PriorityClass:  component.PriorityControllers,
		KubernetesRole: "scheduler",
		Mutable:        true,
		PodLabels:      map[string]string{component.LabelRestart: "true"},
		Reaches:        []string{component.ReachDNS, component.ReachAPIServer},
		PodAnnotations: map[string]string{"checksum/configmap-" + configMapName: hex.EncodeToString(checksum[:])},
	}.Deployment()
}

// configuration is the KubeSchedulerConfiguration. The profile bin-packing fills nodes up, so that empty ones can be
// removed.
func configuration(v Values) string {
	config := map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": component.ClientAccessPath + "/kubeconfig"},
		"leaderElection": map[string]any{
			"leaderElect":   true,
			"leaseDuration": component.ElectionLeaseDuration.String(),
			"renewDeadline": component.ElectionRenewDeadline.String(),
			"retryPeriod":   component.ElectionRetryPeriod.String(),
		},
		"enableProfiling": false,
	}
	if c := v.Config; c != nil && c.Profile != nil && *c.Profile == corev1beta1.SchedulingProfileBinPacking {
		config["profiles"] = []any{map[string]any{
			"schedulerName": "default-scheduler",
			"pluginConfig": []any{map[string]any{"name": "NodeResourcesFit", "args": map[string]any{
				"scoringStrategy": map[string]any{"type": "MostAllocated", "resources": []any{
					map[string]any{"name": "cpu", "weight": 1}, map[string]any{"name": "memory", "weight": 1},
				}},
			}}},
			"plugins": map[string]any{"score": map[string]any{
				"disabled": []any{map[string]any{"name": "NodeResourcesBalancedAllocation"}},
			}},
		}}
	}
	out, err := yaml.Marshal(config)
	if err != nil {
		panic(fmt.Sprintf("kubescheduler: %v", err)) // Maps of plain values.
	}
	return string(out)
}
