package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CredentialsBinding makes credentials usable by the Shoots of its namespace. All its fields are immutable.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CredentialsBinding struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// provider whose credentials these are.
	Provider CredentialsBindingProvider `json:"provider"`
	// credentialsRef is a v1 Secret, a core.gardener.cloud/v1beta1 InternalSecret or a
	// security.gardener.cloud/v1alpha1 WorkloadIdentity. Its namespace defaults to the binding's.
	CredentialsRef corev1.ObjectReference `json:"credentialsRef"`
	// quotas bound the Shoots that use the binding. Their namespaces default to the binding's.
	// +optional
	Quotas []corev1.ObjectReference `json:"quotas,omitempty"`
}

// CredentialsBindingList is a list of CredentialsBindings.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CredentialsBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the CredentialsBindings.
	Items []CredentialsBinding `json:"items"`
}

// CredentialsBindingProvider is the provider whose credentials a CredentialsBinding holds.
type CredentialsBindingProvider struct {
	// type of the provider; exactly one.
	Type string `json:"type"`
}
