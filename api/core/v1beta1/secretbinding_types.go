package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretBinding makes a Secret with infrastructure credentials usable by the Shoots of its namespace. Deprecated:
// CredentialsBinding can do more.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type SecretBinding struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// secretRef is the Secret. Its namespace defaults to the binding's. Immutable.
	SecretRef corev1.SecretReference `json:"secretRef"`
	// quotas bound the Shoots that use the binding. Their namespaces default to the binding's. Immutable.
	// +optional
	Quotas []corev1.ObjectReference `json:"quotas,omitempty"`
	// provider whose credentials these are. Immutable once set.
	// +optional
	Provider *SecretBindingProvider `json:"provider,omitempty"`
}

// SecretBindingList is a list of SecretBindings.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type SecretBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the SecretBindings.
	Items []SecretBinding `json:"items"`
}

// SecretBindingProvider is the provider whose credentials a SecretBinding holds.
type SecretBindingProvider struct {
	// type of the provider; a comma separated list is tolerated.
	Type string `json:"type"`
}
