// Package config is the configuration file of the node agent, and the places on a node that it shares with the
// configurations of machines (package osc).
package config

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Places on a node.
const (
	// Dir holds everything the node agent keeps.
	Dir = "/var/lib/gardener-node-agent"
	// File is the configuration.
	File = Dir + "/config.yaml"
	// InitScript installs the node agent at the first boot.
	InitScript = Dir + "/init.sh"
	// MachineNameFile holds the name of the Machine object this node belongs to.
	MachineNameFile = Dir + "/machine-name"
	// BootstrapTokenFile holds the token for the first access of node agent and kubelet. It is removed after use.
	BootstrapTokenFile = Dir + "/credentials/bootstrap-token"
	// KubeconfigFile is the node agent's own access.
	KubeconfigFile = Dir + "/credentials/kubeconfig"
	// Binary is the node agent's program.
	Binary = "/opt/bin/gardener-node-agent"

	// UnitName and InitUnitName are the node agent's units.
	UnitName     = "gardener-node-agent.service"
	InitUnitName = "gardener-node-init.service"

	KubeletBinary              = "/opt/bin/kubelet"
	KubeletUnitName            = extensionsv1alpha1.KubeletUnitName
	KubeletDir                 = "/var/lib/kubelet"
	KubeletConfigFile          = extensionsv1alpha1.KubeletConfigFile
	KubeletCAFile              = KubeletDir + "/ca.crt"
	KubeletBootstrapKubeconfig = KubeletDir + "/kubeconfig-bootstrap"
	KubeletKubeconfig          = KubeletDir + "/kubeconfig-real"
	// KubeletExtraArgsFile may set KUBELET_EXTRA_ARGS. It belongs to the machine image, which knows the properties of
	// the machine: its address, its provider ID, its share of the host's resources.
	KubeletExtraArgsFile = KubeletDir + "/extra_args"

	ContainerdUnitName   = "containerd.service"
	ContainerdSocket     = "/run/containerd/containerd.sock"
	ContainerdConfigFile = "/etc/containerd/config.toml"
	ContainerdConfDir    = "/etc/containerd/conf.d"
	ContainerdCertsDir   = "/etc/containerd/certs.d"
)

// OSCDataKey is the key of the Secret with the OperatingSystemConfig of a pool.
const OSCDataKey = "osc.yaml"

// Placeholders that the machine controller replaces in user data.
const (
	BootstrapTokenPlaceholder = "<<BOOTSTRAP_TOKEN>>"
	MachineNamePlaceholder    = "<<MACHINE_NAME>>"
)

// What the node agent writes on its Node; admission in the Shoot refuses anything else.
const (
	// AnnotationChecksum is the checksum of the configuration that the node has applied.
	AnnotationChecksum = "checksum/cloud-config-data"
	// AnnotationUpdatingOS is the version of the operating system that is being installed.
	AnnotationUpdatingOS = "node-agent.gardener.cloud/updating-operating-system-version"
	// AnnotationRestartUnits names units to restart, separated by commas. The node agent removes it.
	AnnotationRestartUnits = "worker.gardener.cloud/restart-systemd-services"
	// LabelRoleWorker shows in `kubectl get nodes`.
	LabelRoleWorker = "node-role.kubernetes.io/worker"
)

// NodeLabels and NodeAnnotations are the keys of all that the node agent writes on its Node.
func NodeLabels() []string {
	return []string{LabelRoleWorker, corev1beta1.LabelWorkerKubernetesVersion, corev1beta1.LabelNodeUpdateResult}
}

// NodeAnnotations is explained with NodeLabels.
func NodeAnnotations() []string {
	return []string{
		AnnotationChecksum, AnnotationUpdatingOS, AnnotationRestartUnits, corev1beta1.AnnotationNodeUpdateFailedReason,
	}
}

// APIVersion and Kind of the configuration file.
const (
	APIVersion = "nodeagent.config.gardener.cloud/v1alpha1"
	Kind       = "NodeAgentConfiguration"
)

// DefaultSyncPeriod is the interval at which everything is checked again without a change.
const DefaultSyncPeriod = 10 * time.Minute

// Configuration is the content of File.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	APIServer       APIServer   `json:"apiServer"`
	Controllers     Controllers `json:"controllers"`
}

// APIServer configures the access to the cluster.
type APIServer struct {
	// server is the URL of the API server. Required.
	Server string `json:"server"`
	// caBundle is the PEM bundle that verifies its certificate. Required.
	CABundle []byte `json:"caBundle"`
}

// Controllers configures the parts of the node agent.
type Controllers struct {
	OperatingSystemConfig OperatingSystemConfig `json:"operatingSystemConfig"`
}

// OperatingSystemConfig configures the controller that applies the pool's OperatingSystemConfig.
type OperatingSystemConfig struct {
	// secretName is the Secret in kube-system with the OperatingSystemConfig. Required.
	SecretName string `json:"secretName"`
	// kubernetesVersion is the Kubernetes version of the pool; it is shown as a label of the Node. Required.
	KubernetesVersion string `json:"kubernetesVersion"`
	// syncPeriod is the interval at which everything is checked again without a change. Default 10m.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// Render returns the configuration as YAML.
func (c Configuration) Render() ([]byte, error) {
	c.APIVersion, c.Kind = APIVersion, Kind
	out, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("render node agent configuration: %w", err)
	}
	return out, nil
}

// Parse reads and checks a configuration and fills in defaults.
func Parse(raw []byte) (*Configuration, error) {
	c := &Configuration{}
	if err := yaml.UnmarshalStrict(raw, c); err != nil {
		return nil, fmt.Errorf("parse node agent configuration: %w", err)
	}
	if c.APIVersion != APIVersion || c.Kind != Kind {
		return nil, fmt.Errorf("parse node agent configuration: it is a %s %s, not a %s %s", c.APIVersion, c.Kind, APIVersion,
			Kind)
	}
	osc := &c.Controllers.OperatingSystemConfig
	if c.APIServer.Server == "" || len(c.APIServer.CABundle) == 0 || osc.SecretName == "" || osc.KubernetesVersion == "" {
		return nil, errors.New("node agent configuration: apiServer.server, apiServer.caBundle, " +
			"controllers.operatingSystemConfig.secretName and .kubernetesVersion are required")
	}
	if osc.SyncPeriod == nil {
		osc.SyncPeriod = &metav1.Duration{Duration: DefaultSyncPeriod}
	}
	return c, nil
}
