package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ControlPlaneKind is the kind of a [ControlPlane].
const ControlPlaneKind = "ControlPlane"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=controlplanes,scope=Namespaced,shortName=cp,singular=controlplane
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name="Purpose",JSONPath=".spec.purpose",type=string,description="Purpose of the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// ControlPlane is the provider's own part of a Shoot's control plane, such as its cloud-controller-manager.
type ControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec ControlPlaneSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status ControlPlaneStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *ControlPlane) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *ControlPlane) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// ControlPlaneList is a list of ControlPlane objects.
type ControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []ControlPlane `json:"items"`
}

// ControlPlaneSpec is the desired state of a ControlPlane.
type ControlPlaneSpec struct {
	DefaultSpec `json:",inline"`
	// purpose is normal or exposure. Empty means normal. Immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	// +optional
	Purpose *ControlPlanePurpose `json:"purpose,omitempty"`
	// infrastructureProviderStatus is the providerStatus of the Infrastructure.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	InfrastructureProviderStatus *runtime.RawExtension `json:"infrastructureProviderStatus,omitempty"`
	// region of the Shoot. Required, immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Region string `json:"region"`
	// secretRef names the Secret with the provider's credentials. Required.
	SecretRef corev1.SecretReference `json:"secretRef"`
}

// ControlPlaneStatus is the observed state of a ControlPlane.
type ControlPlaneStatus struct {
	DefaultStatus `json:",inline"`
}

// ControlPlanePurpose is the part of a control plane that an object covers.
type ControlPlanePurpose string

const (
	// ControlPlanePurposeNormal is the set of provider controllers.
	ControlPlanePurposeNormal ControlPlanePurpose = "normal"
	// ControlPlanePurposeExposure is the exposure of the API server to clients outside the seed.
	ControlPlanePurposeExposure ControlPlanePurpose = "exposure"
)
