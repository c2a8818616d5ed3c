package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// WorkerKind is the kind of a [Worker].
const WorkerKind = "Worker"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=workers,scope=Namespaced,singular=worker
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name="Region",JSONPath=".spec.region",type=string,description="Region of the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// Worker is the set of all machines of a Shoot, by pool.
type Worker struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec WorkerSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status WorkerStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *Worker) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *Worker) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// WorkerList is a list of Worker objects.
type WorkerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Worker `json:"items"`
}

// WorkerSpec is the desired state of a Worker.
type WorkerSpec struct {
	DefaultSpec `json:",inline"`
	// infrastructureProviderStatus is the providerStatus of the Infrastructure.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	InfrastructureProviderStatus *runtime.RawExtension `json:"infrastructureProviderStatus,omitempty"`
	// region of the Shoot. Required, immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Region string `json:"region"`
	// secretRef names the Secret with the provider's credentials. Required.
	SecretRef corev1.SecretReference `json:"secretRef"`
	// sshPublicKey lets its owner log in to the machines, base64 encoded. Empty when SSH is off.
	// +optional
	SSHPublicKey []byte `json:"sshPublicKey,omitempty"`
	// pools are the groups of equal machines.
	// +listType=map
	// +listMapKey=name
	Pools []WorkerPool `json:"pools" patchStrategy:"merge" patchMergeKey:"name"`
}

// WorkerStatus is the observed state of a Worker.
type WorkerStatus struct {
	DefaultStatus `json:",inline"`
	// machineDeployments are what the autoscaler may scale. Written before the machines are ready.
	// +listType=map
	// +listMapKey=name
	// +optional
	MachineDeployments []MachineDeployment `json:"machineDeployments,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// machineDeploymentsLastUpdateTime is when machineDeployments was written last.
	// +optional
	MachineDeploymentsLastUpdateTime *metav1.Time `json:"machineDeploymentsLastUpdateTime,omitempty"`
	// inPlaceUpdates has the state of pools that are updated in place.
	// +optional
	InPlaceUpdates *InPlaceUpdatesWorkerStatus `json:"inPlaceUpdates,omitempty"`
}

// WorkerPool is a group of equal machines.
type WorkerPool struct {
	// machineType names the type of the machines. Required.
	// +kubebuilder:validation:MinLength=1
	MachineType string `json:"machineType"`
	// maximum number of machines. Required.
	Maximum int32 `json:"maximum"`
	// maxSurge is how many machines may exist beyond the desired number during an update, as number or percentage.
	MaxSurge intstr.IntOrString `json:"maxSurge"`
	// maxUnavailable is how many machines may be missing during an update, as number or percentage.
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
	// annotations of the nodes.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// labels of the nodes.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// taints of the nodes.
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// machineImage is the logical name and version of the image; the extension maps it to the provider's. The gardenlet
	// always sets it.
	// +optional
	MachineImage MachineImage `json:"machineImage"`
	// minimum number of machines. Required.
	Minimum int32 `json:"minimum"`
	// name of the pool. Required, unique.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// nodeAgentSecretName is the key of the pool's configuration; a change replaces the machines. Empty for pools
	// that still use the first version of the pool hash.
	// +optional
	NodeAgentSecretName *string `json:"nodeAgentSecretName,omitempty"`
	// providerConfig is passed on from the Shoot's pool.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// userDataSecretRef names the Secret and key with the user data. Required.
	UserDataSecretRef corev1.SecretKeySelector `json:"userDataSecretRef"`
	// volume is the root disk. Empty means the machine type's own.
	// +optional
	Volume *Volume `json:"volume,omitempty"`
	// dataVolumes are further disks.
	// +optional
	DataVolumes []DataVolume `json:"dataVolumes,omitempty"`
	// kubeletDataVolumeName names the data volume for /var/lib/kubelet.
	// +optional
	KubeletDataVolumeName *string `json:"kubeletDataVolumeName,omitempty"`
	// zones of the machines. Each zone gets its own MachineDeployment.
	// +optional
	Zones []string `json:"zones,omitempty"`
	// machineControllerManager has timeouts for the pool's machines.
	// +optional
	MachineControllerManagerSettings *MachineControllerManagerSettings `json:"machineControllerManager,omitempty"`
	// kubernetesVersion of the pool's kubelets.
	// +optional
	KubernetesVersion *string `json:"kubernetesVersion,omitempty"`
	// kubeletConfig of the pool as it takes effect.
	// +optional
	KubeletConfig *corev1beta1.KubeletConfig `json:"kubeletConfig,omitempty"`
	// nodeTemplate describes the capacity of a node of the pool, so that the autoscaler can scale it up from zero.
	// +optional
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`
	// architecture of the machines, amd64 or arm64. Empty means amd64.
	// +kubebuilder:validation:Enum=amd64;arm64
	// +optional
	Architecture *string `json:"architecture,omitempty"`
	// clusterAutoscaler has settings of the autoscaler for this pool.
	// +optional
	ClusterAutoscaler *ClusterAutoscalerOptions `json:"clusterAutoscaler,omitempty"`
	// priority is the weight of the pool for the autoscaler; higher ones are scaled up first.
	// +optional
	Priority *int32 `json:"priority,omitempty"`
	// updateStrategy is AutoRollingUpdate, AutoInPlaceUpdate or ManualInPlaceUpdate. Empty means AutoRollingUpdate.
	// +optional
	UpdateStrategy *corev1beta1.MachineUpdateStrategy `json:"updateStrategy,omitempty"`
}

// MachineImage is a logical machine image.
type MachineImage struct {
	// name of the image. Required.
	Name string `json:"name"`
	// version of the image. Required.
	Version string `json:"version"`
}

// Volume is the root disk of a machine.
type Volume struct {
	// name of the disk.
	// +optional
	Name *string `json:"name,omitempty"`
	// type of the disk, one of the provider's.
	// +optional
	Type *string `json:"type,omitempty"`
	// size as quantity, for example 20Gi. Required.
	Size string `json:"size"`
	// encrypted specifies whether the disk is encrypted.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
}

// DataVolume is a further disk of a machine.
type DataVolume struct {
	// name of the disk. Required.
	Name string `json:"name"`
	// type of the disk, one of the provider's.
	// +optional
	Type *string `json:"type,omitempty"`
	// size as quantity, for example 20Gi. Required.
	Size string `json:"size"`
	// encrypted specifies whether the disk is encrypted.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
}

// NodeTemplate describes the capacity of a node.
type NodeTemplate struct {
	// capacity by resource name: cpu, gpu, memory. Required.
	Capacity corev1.ResourceList `json:"capacity"`
	// virtualCapacity are resources that exist only as a number; they may change without replacing machines.
	// +optional
	VirtualCapacity corev1.ResourceList `json:"virtualCapacity,omitempty"`
}

// MachineControllerManagerSettings has timeouts for machines.
type MachineControllerManagerSettings struct {
	// machineDrainTimeout bounds how long a machine may drain. Default 2h.
	// +optional
	MachineDrainTimeout *metav1.Duration `json:"machineDrainTimeout,omitempty"`
	// machineHealthTimeout is how long a machine may be unhealthy before it is replaced. Default 10m.
	// +optional
	MachineHealthTimeout *metav1.Duration `json:"machineHealthTimeout,omitempty"`
	// machineCreationTimeout is how long a machine may take to join. Default 10m.
	// +optional
	MachineCreationTimeout *metav1.Duration `json:"machineCreationTimeout,omitempty"`
	// inPlaceUpdateTimeout is how long an in-place update may take. Default 20m.
	// +optional
	MachineInPlaceUpdateTimeout *metav1.Duration `json:"inPlaceUpdateTimeout,omitempty"`
	// disableHealthTimeout keeps unhealthy machines. True for pools that are updated in place.
	// +optional
	DisableHealthTimeout *bool `json:"disableHealthTimeout,omitempty"`
	// maxEvictRetries bounds how often the eviction of a pod is tried.
	// +optional
	MaxEvictRetries *int32 `json:"maxEvictRetries,omitempty"`
	// nodeConditions are condition types that make a machine unhealthy when True.
	// +optional
	NodeConditions []string `json:"nodeConditions,omitempty"`
	// machinePreserveTimeout is how long a machine marked for preservation is kept.
	// +optional
	MachinePreserveTimeout *metav1.Duration `json:"machinePreserveTimeout,omitempty"`
	// autoPreserveFailedMachineMax bounds the failed machines that are preserved without a mark.
	// +optional
	AutoPreserveFailedMachineMax *int32 `json:"autoPreserveFailedMachineMax,omitempty"`
}

// ClusterAutoscalerOptions are settings of the autoscaler for one pool. Empty ones follow the cluster's.
type ClusterAutoscalerOptions struct {
	// scaleDownUtilizationThreshold is the share of a node's requests below which it may be removed, for example "0.5".
	// +optional
	ScaleDownUtilizationThreshold *string `json:"scaleDownUtilizationThreshold,omitempty"`
	// scaleDownGpuUtilizationThreshold is the same for GPUs.
	// +optional
	ScaleDownGpuUtilizationThreshold *string `json:"scaleDownGpuUtilizationThreshold,omitempty"`
	// scaleDownUnneededTime is how long a node must be unneeded before it is removed.
	// +optional
	ScaleDownUnneededTime *metav1.Duration `json:"scaleDownUnneededTime,omitempty"`
	// scaleDownUnreadyTime is how long an unready node must be unneeded before it is removed.
	// +optional
	ScaleDownUnreadyTime *metav1.Duration `json:"scaleDownUnreadyTime,omitempty"`
	// maxNodeProvisionTime is how long a node may take to register.
	// +optional
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`
}

// MachineDeployment is one MachineDeployment the Worker made.
type MachineDeployment struct {
	// name of the MachineDeployment. Required.
	Name string `json:"name"`
	// minimum number of machines. Required.
	Minimum int32 `json:"minimum"`
	// maximum number of machines. Required.
	Maximum int32 `json:"maximum"`
	// priority of the pool for the autoscaler.
	// +optional
	Priority *int32 `json:"priority,omitempty"`
}

// InPlaceUpdatesWorkerStatus has the state of pools that are updated in place.
type InPlaceUpdatesWorkerStatus struct {
	// workerPoolToHashMap has for each pool the hash of the configuration all its machines have.
	// +optional
	WorkerPoolToHashMap map[string]string `json:"workerPoolToHashMap,omitempty"`
}
