package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NamespacedCloudProfile changes a CloudProfile for one project.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NamespacedCloudProfile struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what differs from the parent.
	Spec NamespacedCloudProfileSpec `json:"spec,omitempty"`
	// status is the merged offer.
	// +optional
	Status NamespacedCloudProfileStatus `json:"status,omitempty"`
}

// NamespacedCloudProfileList is a list of NamespacedCloudProfiles.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NamespacedCloudProfileList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the NamespacedCloudProfiles.
	Items []NamespacedCloudProfile `json:"items"`
}

// NamespacedCloudProfileSpec is what differs from the parent.
type NamespacedCloudProfileSpec struct {
	// caBundle holds PEM certificates, appended to those of the parent.
	// +optional
	CABundle *string `json:"caBundle,omitempty"`
	// kubernetes overrides the expiration dates of versions of the parent.
	// +optional
	Kubernetes *KubernetesSettings `json:"kubernetes,omitempty"`
	// machineImages override expiration dates of the parent's images, or add images and versions.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	MachineImages []MachineImage `json:"machineImages,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// machineTypes are added to those of the parent.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	MachineTypes []MachineType `json:"machineTypes,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// volumeTypes are added to those of the parent.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	VolumeTypes []VolumeType `json:"volumeTypes,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// parent is the profile that is changed; its kind is CloudProfile. Immutable.
	Parent CloudProfileReference `json:"parent"`
	// providerConfig is merged with the parent's by the provider's extension.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// limits override those of the parent.
	// +optional
	Limits *Limits `json:"limits,omitempty"`
}

// NamespacedCloudProfileStatus is the merged offer.
type NamespacedCloudProfileStatus struct {
	// cloudProfileSpec is the parent's spec with this object's changes. Set by the controller.
	CloudProfileSpec CloudProfileSpec `json:"cloudProfileSpec,omitempty"`
	// observedGeneration is the generation that the merge has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
