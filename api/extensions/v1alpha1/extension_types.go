package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExtensionKind is the kind of a [Extension].
const ExtensionKind = "Extension"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=extensions,scope=Namespaced,shortName=ext,singular=extension
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// Extension is an optional feature of a Shoot, named by its type.
type Extension struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec ExtensionSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status ExtensionStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *Extension) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *Extension) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// ExtensionList is a list of Extension objects.
type ExtensionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Extension `json:"items"`
}

// ExtensionSpec is the desired state of an Extension.
type ExtensionSpec struct {
	DefaultSpec `json:",inline"`
}

// ExtensionStatus is the observed state of an Extension.
type ExtensionStatus struct {
	DefaultStatus `json:",inline"`
}
