package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContainerRuntimeKind is the kind of a [ContainerRuntime].
const ContainerRuntimeKind = "ContainerRuntime"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=containerruntimes,scope=Namespaced,shortName=cr,singular=containerruntime
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// ContainerRuntime is an additional container runtime on the nodes of one worker pool.
type ContainerRuntime struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec ContainerRuntimeSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status ContainerRuntimeStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *ContainerRuntime) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *ContainerRuntime) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// ContainerRuntimeList is a list of ContainerRuntime objects.
type ContainerRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []ContainerRuntime `json:"items"`
}

// ContainerRuntimeSpec is the desired state of a ContainerRuntime.
type ContainerRuntimeSpec struct {
	DefaultSpec `json:",inline"`
	// binaryPath is the directory on the node for the runtime's programs, /var/bin/containerruntimes. Required.
	BinaryPath string `json:"binaryPath"`
	// workerPool is the pool whose nodes get the runtime. Required.
	WorkerPool ContainerRuntimeWorkerPool `json:"workerPool"`
}

// ContainerRuntimeBinaryPath is the directory on nodes for programs of additional container runtimes. It is the first
// in containerd's PATH.
const ContainerRuntimeBinaryPath = "/var/bin/containerruntimes"

// ContainerRuntimeStatus is the observed state of a ContainerRuntime.
type ContainerRuntimeStatus struct {
	DefaultStatus `json:",inline"`
}

// ContainerRuntimeWorkerPool names a worker pool and selects its nodes.
type ContainerRuntimeWorkerPool struct {
	// name of the worker pool. Required, immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Name string `json:"name"`
	// selector matches the nodes of the pool by the label worker.gardener.cloud/pool. Required.
	Selector metav1.LabelSelector `json:"selector"`
}
