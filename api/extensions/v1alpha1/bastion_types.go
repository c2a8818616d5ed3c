package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BastionKind is the kind of a [Bastion].
const BastionKind = "Bastion"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bastions,scope=Namespaced,singular=bastion
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// Bastion is a temporary machine from which the nodes of a Shoot can be reached by SSH.
type Bastion struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec BastionSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status BastionStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *Bastion) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *Bastion) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// BastionList is a list of Bastion objects.
type BastionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Bastion `json:"items"`
}

// BastionSpec is the desired state of a Bastion.
type BastionSpec struct {
	DefaultSpec `json:",inline"`
	// userData is given to the machine at its first start, base64 encoded. Required, immutable.
	//
	// The format byte is left out: rules of API servers take its values for base64 of the alphabet for URLs, and fail.
	// +kubebuilder:validation:Format=""
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	UserData []byte `json:"userData"`
	// ingress lists the networks from which SSH connections are let in. Required.
	Ingress []BastionIngressPolicy `json:"ingress"`
}

// BastionStatus is the observed state of a Bastion.
type BastionStatus struct {
	DefaultStatus `json:",inline"`
	// ingress is the public address of the machine; set by the extension.
	// +optional
	Ingress *corev1.LoadBalancerIngress `json:"ingress,omitempty"`
}

// BastionIngressPolicy is a network from which a Bastion may be reached.
type BastionIngressPolicy struct {
	// ipBlock is the network. Required.
	IPBlock networkingv1.IPBlock `json:"ipBlock"`
}
