package v1beta1

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ShootState is the state that a Seed needs to take over a Shoot's control plane. Its name is that of the Shoot.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ShootState struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the state another Seed needs to restore the control plane.
	// +optional
	Spec ShootStateSpec `json:"spec,omitempty"`
}

// ShootStateList is a list of ShootStates.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ShootStateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ShootStates.
	Items []ShootState `json:"items"`
}

// ShootStateSpec is the state of a Shoot's control plane.
type ShootStateSpec struct {
	// gardener holds the state of the gardenlet itself.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Gardener []GardenerResourceData `json:"gardener,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// extensions hold the states of extension objects.
	// +optional
	Extensions []ExtensionResourceState `json:"extensions,omitempty"`
	// resources are copies of objects that extensions refer to.
	// +optional
	Resources []ResourceData `json:"resources,omitempty"`
}

// Types of GardenerResourceData.
const (
	DataTypeSecret       = "secret"
	DataTypeMachineState = "machine-state"
)

// GardenerResourceData is one item of state of the gardenlet.
type GardenerResourceData struct {
	// name of the data. Unique.
	Name string `json:"name"`
	// type is secret or machine-state.
	Type string `json:"type"`
	// data is, for a secret, the data of the Secret in base64 by key; for machine-state {state}, a gzip-compressed
	// JSON document.
	Data runtime.RawExtension `json:"data"`
	// labels of the data's origin.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ExtensionResourceState is the state of an extension object.
type ExtensionResourceState struct {
	// kind of the object.
	Kind string `json:"kind"`
	// name of the object.
	// +optional
	Name *string `json:"name,omitempty"`
	// purpose of the object, for kinds that have one.
	// +optional
	Purpose *string `json:"purpose,omitempty"`
	// state is status.state of the object.
	// +optional
	State *runtime.RawExtension `json:"state,omitempty"`
	// resources is status.resources of the object.
	// +optional
	Resources []NamedResourceReference `json:"resources,omitempty"`
}

// ResourceData is the copy of an object.
type ResourceData struct {
	autoscalingv1.CrossVersionObjectReference `json:",inline"`
	// data is the object.
	Data runtime.RawExtension `json:"data"`
}
