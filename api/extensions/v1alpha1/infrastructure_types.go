package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InfrastructureKind is the kind of a [Infrastructure].
const InfrastructureKind = "Infrastructure"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=infrastructures,scope=Namespaced,shortName=infra,singular=infrastructure
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name="Region",JSONPath=".spec.region",type=string,description="Region of the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// Infrastructure is what a Shoot needs at the provider before machines can start: networks, routes, roles, keys.
type Infrastructure struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec InfrastructureSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status InfrastructureStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *Infrastructure) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *Infrastructure) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// InfrastructureList is a list of Infrastructure objects.
type InfrastructureList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Infrastructure `json:"items"`
}

// InfrastructureSpec is the desired state of an Infrastructure.
type InfrastructureSpec struct {
	DefaultSpec `json:",inline"`
	// region of the Shoot. Required, immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Region string `json:"region"`
	// secretRef names the Secret with the provider's credentials. Required.
	SecretRef corev1.SecretReference `json:"secretRef"`
	// sshPublicKey lets its owner log in to the machines, base64 encoded. Empty when SSH is off.
	// +optional
	SSHPublicKey []byte `json:"sshPublicKey,omitempty"`
}

// InfrastructureStatus is the observed state of an Infrastructure.
type InfrastructureStatus struct {
	DefaultStatus `json:",inline"`
	// nodesCIDR is the network of the machines; it wins over the one in the Shoot.
	// +optional
	NodesCIDR *string `json:"nodesCIDR,omitempty"`
	// egressCIDRs are the source networks of the machines' traffic to external destinations.
	// +optional
	EgressCIDRs []string `json:"egressCIDRs,omitempty"`
	// networking lists all networks in use, for providers that add some.
	// +optional
	Networking *InfrastructureStatusNetworking `json:"networking,omitempty"`
}

// InfrastructureStatusNetworking lists the networks of a Shoot as the provider set them up.
type InfrastructureStatusNetworking struct {
	// pods are the networks of the pods.
	// +optional
	Pods []string `json:"pods,omitempty"`
	// nodes are the networks of the machines.
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// services are the networks of the Services.
	// +optional
	Services []string `json:"services,omitempty"`
}
