package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Provider holds a cluster's infrastructure and worker pools.
type Provider struct {
	// type of the infrastructure; that of the CloudProfile. Immutable.
	Type string `json:"type"`
	// controlPlaneConfig is read by the provider's extension only.
	// +optional
	ControlPlaneConfig *runtime.RawExtension `json:"controlPlaneConfig,omitempty"`
	// infrastructureConfig is read by the provider's extension only.
	// +optional
	InfrastructureConfig *runtime.RawExtension `json:"infrastructureConfig,omitempty"`
	// workers are the pools. Empty: the cluster is a control plane without nodes. Cannot change between the two.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Workers []Worker `json:"workers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// workersSettings apply to the machines of all pools.
	// +optional
	WorkersSettings *WorkersSettings `json:"workersSettings,omitempty"`
}

// WorkersSettings apply to all pools.
type WorkersSettings struct {
	// sshAccess specifies whether machines can be reached by SSH. Default enabled, with workers.
	// +optional
	SSHAccess *SSHAccess `json:"sshAccess,omitempty"`
}

// SSHAccess specifies whether machines can be reached by SSH.
type SSHAccess struct {
	// enabled lets users log in to machines with the SSH key pair of the Shoot.
	Enabled bool `json:"enabled"`
}

// MachineUpdateStrategy is how the machines of a pool are updated.
type MachineUpdateStrategy string

const (
	AutoRollingUpdate   MachineUpdateStrategy = "AutoRollingUpdate"
	AutoInPlaceUpdate   MachineUpdateStrategy = "AutoInPlaceUpdate"
	ManualInPlaceUpdate MachineUpdateStrategy = "ManualInPlaceUpdate"
)

// Worker is a pool of machines of one kind.
type Worker struct {
	// annotations of the pool's nodes, besides those of the system.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// caBundle holds PEM certificates that the pool's machines trust.
	// +optional
	CABundle *string `json:"caBundle,omitempty"`
	// cri is the container runtime interface, and runtimes that are added to it. Default containerd.
	// +optional
	CRI *CRI `json:"cri,omitempty"`
	// kubernetes holds a version and kubelet settings of the pool's own.
	// +optional
	Kubernetes *WorkerKubernetes `json:"kubernetes,omitempty"`
	// labels of the pool's nodes, besides those of the system.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// name of the pool, at most 15 characters. Unique.
	Name string `json:"name"`
	// machine is the machine type and the machine image of the pool.
	Machine Machine `json:"machine"`
	// maximum number of machines in the pool over all zones; at least minimum. Pools stay at minimum here, because
	// there is no cluster autoscaler.
	Maximum int32 `json:"maximum"`
	// minimum number of machines in the pool over all zones.
	Minimum int32 `json:"minimum"`
	// maxSurge is how many machines, or percent of them, may be added during an update.
	// Default 1 (AutoRollingUpdate), 0 (AutoInPlaceUpdate); no effect with ManualInPlaceUpdate.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// maxUnavailable is how many machines, or percent of them, may be missing during an update.
	// Default 0 (AutoRollingUpdate), 1 (AutoInPlaceUpdate); no effect with ManualInPlaceUpdate.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// providerConfig is read by the provider's extension only.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// taints of the pool's nodes. The key node.gardener.cloud/critical-components-not-ready is reserved.
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// volume is the root disk. Empty: that of the machine type.
	// +optional
	Volume *Volume `json:"volume,omitempty"`
	// dataVolumes are disks besides the root disk, for which volume must be given.
	// +optional
	DataVolumes []DataVolume `json:"dataVolumes,omitempty"`
	// kubeletDataVolumeName names the data volume that holds the kubelet's directory.
	// +optional
	KubeletDataVolumeName *string `json:"kubeletDataVolumeName,omitempty"`
	// zones over which the machines are spread. Empty: the region has none, or the provider chooses.
	// +optional
	Zones []string `json:"zones,omitempty"`
	// systemComponents specifies whether components of kube-system may run here. Default they may.
	// +optional
	SystemComponents *WorkerSystemComponents `json:"systemComponents,omitempty"`
	// machineControllerManager holds settings of the machine controller.
	// +optional
	MachineControllerManagerSettings *MachineControllerManagerSettings `json:"machineControllerManager,omitempty"`
	// sysctls are kernel settings of the pool's machines by name, such as net.core.somaxconn. No effect here: machines
	// keep their own.
	// +optional
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// clusterAutoscaler holds settings of the cluster autoscaler for this pool. No effect here: there is none.
	// +optional
	ClusterAutoscaler *ClusterAutoscalerOptions `json:"clusterAutoscaler,omitempty"`
	// priority of the pool for the expander priority, at least -1; higher is preferred. Empty: 0. No effect here:
	// there is no cluster autoscaler.
	// +optional
	Priority *int32 `json:"priority,omitempty"`
	// updateStrategy specifies how machines are updated: AutoRollingUpdate replaces them, AutoInPlaceUpdate updates them
	// without replacement, ManualInPlaceUpdate does so on request. Default AutoRollingUpdate. Cannot change
	// between replacing and staying.
	// +optional
	UpdateStrategy *MachineUpdateStrategy `json:"updateStrategy,omitempty"`
	// controlPlane marks the pool that hosts the control plane of a self-hosted Shoot. No effect here: such Shoots are
	// not supported.
	// +optional
	ControlPlane *WorkerControlPlane `json:"controlPlane,omitempty"`
}

// WorkerControlPlane is the pool that hosts the control plane of a self-hosted Shoot.
type WorkerControlPlane struct {
	// backup is where the control plane keeps its backups.
	// +optional
	Backup *Backup `json:"backup,omitempty"`
	// exposure specifies how the control plane is reached.
	// +optional
	Exposure *Exposure `json:"exposure,omitempty"`
}

// Exposure specifies how a self-hosted control plane is reached: by an extension or by DNS.
type Exposure struct {
	// extension exposes the control plane.
	// +optional
	Extension *ExtensionExposure `json:"extension,omitempty"`
	// dns exposes the control plane.
	// +optional
	DNS *DNSExposure `json:"dns,omitempty"`
}

// ExtensionExposure exposes a control plane by an extension.
type ExtensionExposure struct {
	// type of the extension. Default the provider type.
	// +optional
	Type *string `json:"type,omitempty"`
	// providerConfig is read by the extension only.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// DNSExposure exposes a control plane by DNS.
type DNSExposure struct{}

// WorkerKubernetes holds a Kubernetes version and kubelet settings of a pool's own.
type WorkerKubernetes struct {
	// kubelet replaces spec.kubernetes.kubelet completely.
	// +optional
	Kubelet *KubeletConfig `json:"kubelet,omitempty"`
	// version of the pool's kubelets, at most three minors behind the control plane. Empty: that of the control plane.
	// +optional
	Version *string `json:"version,omitempty"`
}

// Machine is a machine type and image.
type Machine struct {
	// type is a machine type of the CloudProfile. A change replaces the machines. Required.
	Type string `json:"type"`
	// image is a machine image of the CloudProfile. Default the newest supported version of the first suitable image.
	// +optional
	Image *ShootMachineImage `json:"image,omitempty"`
	// architecture is amd64 or arm64. Default that of the machine type.
	// +optional
	Architecture *string `json:"architecture,omitempty"`
}

// ShootMachineImage is the machine image of a pool.
type ShootMachineImage struct {
	// name of an image of the CloudProfile. A change replaces the machines.
	Name string `json:"name"`
	// providerConfig is read by the operating system's extension only.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// version of the image. Incomplete ones are completed with the highest supported match.
	// +optional
	Version *string `json:"version,omitempty"`
}

// Volume is the root disk of machines.
type Volume struct {
	// name of the disk, for providers that require one.
	// +optional
	Name *string `json:"name,omitempty"`
	// type is a volume type of the CloudProfile. Empty: the provider's default.
	// +optional
	Type *string `json:"type,omitempty"`
	// size of the disk in the form 50Gi, at least what the CloudProfile demands of the type. A change replaces the
	// machines.
	VolumeSize string `json:"size"`
	// encrypted requests encryption. Empty: the provider's default.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
}

// DataVolume is a further disk of machines.
type DataVolume struct {
	// name of the disk, at most 15 characters. Unique in the pool.
	Name string `json:"name"`
	// type is a volume type of the CloudProfile. Empty: the provider's default.
	// +optional
	Type *string `json:"type,omitempty"`
	// size of the disk in the form 50Gi, at least what the CloudProfile demands of the type. It depends on the provider
	// whether a change replaces the machines.
	VolumeSize string `json:"size"`
	// encrypted requests encryption. Empty: the provider's default.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
}

// WorkerSystemComponents specifies whether components of kube-system may run on a pool.
type WorkerSystemComponents struct {
	// allow is true when components of the system, such as CoreDNS, may run here. At least one pool must allow it.
	Allow bool `json:"allow"`
}

// MachineControllerManagerSettings holds settings of the machine controller for a pool.
type MachineControllerManagerSettings struct {
	// machineDrainTimeout is how long a machine may drain before it is deleted anyway. Empty: 2h.
	// +optional
	MachineDrainTimeout *metav1.Duration `json:"machineDrainTimeout,omitempty"`
	// machineHealthTimeout is how long a machine may be unhealthy before it is replaced. Empty: 10m.
	// +optional
	MachineHealthTimeout *metav1.Duration `json:"machineHealthTimeout,omitempty"`
	// machineCreationTimeout is how long a machine may take to join before it is replaced. Empty: 10m.
	// +optional
	MachineCreationTimeout *metav1.Duration `json:"machineCreationTimeout,omitempty"`
	// maxEvictRetries bounds the evictions of a pod before it is deleted. Empty: 10.
	// +optional
	MaxEvictRetries *int32 `json:"maxEvictRetries,omitempty"`
	// nodeConditions mark a machine as unhealthy when true. Empty: KernelDeadlock, ReadonlyFilesystem, DiskPressure.
	// +optional
	NodeConditions []string `json:"nodeConditions,omitempty"`
	// inPlaceUpdateTimeout is how long an update in place may take before it has failed.
	// +optional
	MachineInPlaceUpdateTimeout *metav1.Duration `json:"inPlaceUpdateTimeout,omitempty"`
	// disableHealthTimeout keeps unhealthy machines. Default true with in-place strategies, which alone allow it.
	// +optional
	DisableHealthTimeout *bool `json:"disableHealthTimeout,omitempty"`
	// machinePreserveTimeout is how long a machine marked for preservation is kept. No effect here: machines that
	// failed are replaced.
	// +optional
	MachinePreserveTimeout *metav1.Duration `json:"machinePreserveTimeout,omitempty"`
	// autoPreserveFailedMachineMax bounds the failed machines that are preserved automatically. No effect here:
	// machines that failed are replaced.
	// +optional
	AutoPreserveFailedMachineMax *int32 `json:"autoPreserveFailedMachineMax,omitempty"`
}

// ClusterAutoscalerOptions holds settings of the cluster autoscaler for a pool. Empty fields: those of the Shoot.
type ClusterAutoscalerOptions struct {
	// scaleDownUtilizationThreshold is the use, 0 to 1, below which a node is unneeded.
	// +optional
	ScaleDownUtilizationThreshold *float64 `json:"scaleDownUtilizationThreshold,omitempty"`
	// scaleDownGpuUtilizationThreshold is the use of GPUs, 0 to 1, below which a node is unneeded.
	// +optional
	ScaleDownGpuUtilizationThreshold *float64 `json:"scaleDownGpuUtilizationThreshold,omitempty"`
	// scaleDownUnneededTime is how long a node must be unneeded before it is removed.
	// +optional
	ScaleDownUnneededTime *metav1.Duration `json:"scaleDownUnneededTime,omitempty"`
	// scaleDownUnreadyTime is how long an unready node must be unneeded before it is removed.
	// +optional
	ScaleDownUnreadyTime *metav1.Duration `json:"scaleDownUnreadyTime,omitempty"`
	// maxNodeProvisionTime is how long a new node may take.
	// +optional
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`
}
