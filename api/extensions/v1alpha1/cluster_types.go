package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ClusterKind is the kind of a [Cluster].
const ClusterKind = "Cluster"

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusters,scope=Cluster,singular=cluster
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// Cluster describes to extensions the Shoot whose control plane is in the namespace of the same name.
// The gardenlet writes it before each operation; no controller reconciles it.
type Cluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds copies of garden objects.
	Spec ClusterSpec `json:"spec"`
}

// +kubebuilder:object:root=true

// ClusterList is a list of Cluster objects.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Cluster `json:"items"`
}

// ClusterSpec holds copies of garden objects, with apiVersion and kind.
type ClusterSpec struct {
	// cloudProfile is the CloudProfile of the Shoot; a NamespacedCloudProfile is given in its merged form. Required.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	CloudProfile runtime.RawExtension `json:"cloudProfile"`
	// seed is the Seed of the control plane.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Seed runtime.RawExtension `json:"seed,omitempty,omitzero"`
	// shoot is the Shoot with its status. Required.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	Shoot runtime.RawExtension `json:"shoot"`
}
