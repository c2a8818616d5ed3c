package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InternalSecret is like a Secret, but never visible to project members.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type InternalSecret struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// immutable, once true, keeps data from being changed. Empty: false.
	// +optional
	Immutable *bool `json:"immutable,omitempty"`
	// data by key, at most 1 MiB in total.
	// +optional
	Data map[string][]byte `json:"data,omitempty"`
	// stringData is merged into data when written, and never returned.
	// +optional
	StringData map[string]string `json:"stringData,omitempty"`
	// type of the data, as in a Secret. Default Opaque. Immutable.
	// +optional
	Type corev1.SecretType `json:"type,omitempty"`
}

// InternalSecretList is a list of InternalSecrets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type InternalSecretList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the InternalSecrets.
	Items []InternalSecret `json:"items"`
}
