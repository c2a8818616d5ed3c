package kubeproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/pki"
)

// ResourceName is the name of the ManagedResource.
const ResourceName = "shoot-core-kube-proxy"

const (
	name          = "kube-proxy"
	namespace     = metav1.NamespaceSystem
	pathConfig    = "/var/lib/kube-proxy-config"
	healthPort    = 10256
	labelPool     = "worker.gardener.cloud/pool"
	tokenMount    = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	labelCritical = "node.gardener.cloud/critical-component"
)

// Pool is a group of nodes with one version.
type Pool struct {
	Name  string
	Image string
}

// Values is the input of the rendering.
type Values struct {
	Pools []Pool
	// APIServerURL is the URL of the API server for nodes that does not need kube-proxy's Service routing.
	APIServerURL string
	CABundle     []byte
	PodCIDR      string
	Mode         corev1beta1.ProxyMode
	FeatureGates map[string]bool
}

// Render returns the objects for the Shoot.
func Render(v Values) ([]client.Object, error) {
	labels := map[string]string{component.LabelApp: name, component.LabelRole: "system-component"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels}
	}
	config, err := configuration(v)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := pki.Kubeconfig{
		Name: name, Server: v.APIServerURL, CAPEM: v.CABundle, TokenFile: tokenMount,
	}.Render()
	if err != nil {
		return nil, err
	}
	checksum := sha256.Sum256([]byte(config + string(kubeconfig)))
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta(name), AutomountServiceAccountToken: ptr.To(false)},
		component.BindClusterRole("gardener.cloud:target:node-proxier", "system:node-proxier",
			component.ServiceAccount(namespace, name)),
		&corev1.ConfigMap{
			ObjectMeta: meta("kube-proxy-config"),
			Data:       map[string]string{"config.yaml": config, "kubeconfig": string(kubeconfig)},
		},
	}
	for _, pool := range v.Pools {
		objects = append(objects, daemonSet(pool, labels, hex.EncodeToString(checksum[:])))
	}
	return objects, nil
}

func daemonSet(pool Pool, labels map[string]string, checksum string) *appsv1.DaemonSet {
	podLabels := map[string]string{
		component.LabelApp: name, component.LabelRole: "system-component", "pool": pool.Name, labelCritical: "true",
	}
	own := map[string]string{
		component.LabelApp: name, component.LabelRole: labels[component.LabelRole], labelCritical: "true",
	}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + pool.Name, Namespace: namespace, Labels: own},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
				component.LabelApp: name, "pool": pool.Name,
			}},
			RevisionHistoryLimit: ptr.To(int32(2)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: podLabels, Annotations: map[string]string{"checksum/configmap-kube-proxy-config": checksum},
				},
				Spec: corev1.PodSpec{
					HostNetwork:                  true,
					ServiceAccountName:           name,
					AutomountServiceAccountToken: ptr.To(true),
					PriorityClassName:            "system-node-critical",
					DNSPolicy:                    corev1.DNSDefault,
					NodeSelector:                 map[string]string{labelPool: pool.Name},
					Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{
						Name:            name,
						Image:           pool.Image,
						ImagePullPolicy: corev1.PullIfNotPresent,
						Command: []string{
							"/usr/local/bin/kube-proxy", "--config=" + pathConfig + "/config.yaml", "--hostname-override=$(NODE_NAME)",
						},
						Env: []corev1.EnvVar{{
							Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{
								FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
							},
						}},
						SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
						Resources:       component.Requests("10m", "32Mi"),
						VolumeMounts:    []corev1.VolumeMount{{Name: "config", MountPath: pathConfig, ReadOnly: true}},
						ReadinessProbe: &corev1.Probe{
							ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
								Path: "/healthz", Port: intstr.FromInt32(healthPort),
							}},
							PeriodSeconds: 2, TimeoutSeconds: 5, FailureThreshold: 5,
						},
					}},
					Volumes: []corev1.Volume{{Name: "config",
						VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: "kube-proxy-config"},
						}}}},
				},
			},
		},
	}
}

// configuration is the KubeProxyConfiguration. The connection tracking limits stay as they are: a machine that is
// itself a container may not change them, and on others the kernel's defaults follow the size of memory.
func configuration(v Values) (string, error) {
	mode := strings.ToLower(string(v.Mode))
	if mode == "" {
		mode = "iptables"
	}
	config := map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": pathConfig + "/kubeconfig"},
		"clusterCIDR":        v.PodCIDR,
		"mode":               mode,
		"metricsBindAddress": "127.0.0.1:10249",
		"healthzBindAddress": fmt.Sprintf("0.0.0.0:%d", healthPort),
		"conntrack": map[string]any{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
		"oomScoreAdj": 1000,
	}
	if len(v.FeatureGates) > 0 {
		gates := map[string]any{}
		for k, on := range v.FeatureGates {
			gates[k] = on
		}
		config["featureGates"] = gates
	}
	out, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("render the configuration of kube-proxy: %w", err)
	}
	return string(out), nil
}
