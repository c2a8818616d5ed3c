package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkKind is the kind of a [Network].
const NetworkKind = "Network"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=networks,scope=Namespaced,singular=network
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name="Pod CIDR",JSONPath=".spec.podCIDR",type=string,description="Pod CIDR of the object."
// +kubebuilder:printcolumn:name="Service CIDR",JSONPath=".spec.serviceCIDR",type=string,description="Service CIDR of the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// Network is the pod network of a Shoot.
type Network struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec NetworkSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status NetworkStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *Network) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *Network) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// NetworkList is a list of Network objects.
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Network `json:"items"`
}

// NetworkSpec is the desired state of a Network.
type NetworkSpec struct {
	DefaultSpec `json:",inline"`
	// podCIDR is the network of the pods. Required, immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	PodCIDR string `json:"podCIDR"`
	// serviceCIDR is the network of the Services. Required, immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	ServiceCIDR string `json:"serviceCIDR"`
	// ipFamilies of the network. Empty means IPv4. The only change allowed is between IPv4 and dual stack.
	// +listType=set
	// +optional
	IPFamilies []IPFamily `json:"ipFamilies,omitempty"`
}

// NetworkStatus is the observed state of a Network.
type NetworkStatus struct {
	DefaultStatus `json:",inline"`
	// ipFamilies in use; set by the extension.
	// +optional
	IPFamilies []IPFamily `json:"ipFamilies,omitempty"`
}

// IPFamily is a version of the Internet Protocol.
// +kubebuilder:validation:Enum=IPv4;IPv6
type IPFamily string

const (
	// IPFamilyIPv4 is version 4.
	IPFamilyIPv4 IPFamily = "IPv4"
	// IPFamilyIPv6 is version 6.
	IPFamilyIPv6 IPFamily = "IPv6"
)
