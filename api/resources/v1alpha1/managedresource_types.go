package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=managedresources,scope=Namespaced,shortName=mr,singular=managedresource
// +kubebuilder:printcolumn:name=Class,JSONPath=".spec.class",type=string,description="The resource-manager in charge."
// +kubebuilder:printcolumn:name=Applied,JSONPath=".status.conditions[?(@.type==\"ResourcesApplied\")].status",type=string,description="Whether all objects are applied."
// +kubebuilder:printcolumn:name=Healthy,JSONPath=".status.conditions[?(@.type==\"ResourcesHealthy\")].status",type=string,description="Whether all objects are healthy."
// +kubebuilder:printcolumn:name=Progressing,JSONPath=".status.conditions[?(@.type==\"ResourcesProgressing\")].status",type=string,description="Whether an object is being rolled out."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// ManagedResource is a set of objects to be applied to a cluster and kept there.
type ManagedResource struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the ManagedResource.
	Spec ManagedResourceSpec `json:"spec"`
	// status is written by the resource-manager.
	// +optional
	Status ManagedResourceStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// ManagedResourceList is a list of ManagedResource objects.
type ManagedResourceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []ManagedResource `json:"items"`
}

// ManagedResourceSpec lists the objects to apply.
type ManagedResourceSpec struct {
	// class chooses the resource-manager. Empty is that of a Shoot, "seed" that of the seed.
	// +optional
	Class *string `json:"class,omitempty"`
	// secretRefs name Secrets in the same namespace. Each value is a YAML stream of objects; keys ending in .br are
	// compressed with brotli. Required.
	SecretRefs []corev1.LocalObjectReference `json:"secretRefs"`
	// injectLabels are added to all objects and to their pod templates.
	// +optional
	InjectLabels map[string]string `json:"injectLabels,omitempty"`
	// forceOverwriteLabels removes labels others have added to the objects. Default false.
	// +optional
	ForceOverwriteLabels *bool `json:"forceOverwriteLabels,omitempty"`
	// forceOverwriteAnnotations removes annotations others have added to the objects. Default false.
	// +optional
	ForceOverwriteAnnotations *bool `json:"forceOverwriteAnnotations,omitempty"`
	// keepObjects leaves the objects in place when the ManagedResource is deleted. Default false.
	// +optional
	KeepObjects *bool `json:"keepObjects,omitempty"`
	// equivalences are sets of group and kind that mean the same object, in addition to the well-known ones.
	// +optional
	Equivalences [][]metav1.GroupKind `json:"equivalences,omitempty"`
	// deletePersistentVolumeClaims also deletes the claims of StatefulSets that are deleted. Default false.
	// +optional
	DeletePersistentVolumeClaims *bool `json:"deletePersistentVolumeClaims,omitempty"`
}

// ManagedResourceStatus is what was applied last and how it is.
type ManagedResourceStatus struct {
	// conditions are ResourcesApplied, ResourcesHealthy and ResourcesProgressing.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []corev1beta1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// observedGeneration is the metadata.generation applied last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// resources are the objects applied, sorted.
	// +optional
	Resources []ObjectReference `json:"resources,omitempty"`
	// secretsDataChecksum is the SHA-256 sum of the data of all Secrets, in hex.
	// +optional
	SecretsDataChecksum *string `json:"secretsDataChecksum,omitempty"`
}

// ObjectReference is an object that was applied.
type ObjectReference struct {
	corev1.ObjectReference `json:",inline"`
	// labels the object was applied with, to find those that have been removed since.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations the object was applied with, to find those that have been removed since.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
