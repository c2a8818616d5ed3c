package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// WorkloadIdentity lets a process authenticate to a target system with short-lived tokens.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type WorkloadIdentity struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the target system that accepts the identity.
	Spec WorkloadIdentitySpec `json:"spec"`
	// status holds the subject.
	// +optional
	Status WorkloadIdentityStatus `json:"status,omitempty"`
}

// WorkloadIdentityList is a list of WorkloadIdentities.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type WorkloadIdentityList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the WorkloadIdentities.
	Items []WorkloadIdentity `json:"items"`
}

// WorkloadIdentitySpec is the target system and the audiences of a WorkloadIdentity.
type WorkloadIdentitySpec struct {
	// audiences of the tokens, as the target system expects them. At least one; unique.
	Audiences []string `json:"audiences"`
	// targetSystem that the tokens are for.
	TargetSystem TargetSystem `json:"targetSystem"`
}

// TargetSystem is a system that accepts tokens.
type TargetSystem struct {
	// type of the system, for example a provider type.
	Type string `json:"type"`
	// providerConfig is read by that provider's extension only.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// WorkloadIdentityStatus holds the subject of a WorkloadIdentity.
type WorkloadIdentityStatus struct {
	// sub is the subject of the tokens. Set when the object is created.
	Sub string `json:"sub"`
}

// TokenRequest requests a token of a WorkloadIdentity, through its subresource token.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type TokenRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the requested token: its context and lifetime.
	Spec TokenRequestSpec `json:"spec"`
	// status holds the token.
	// +optional
	Status TokenRequestStatus `json:"status,omitempty"`
}

// TokenRequestSpec is the requested token.
type TokenRequestSpec struct {
	// contextObject is the object on whose behalf the token is used.
	// +optional
	ContextObject *ContextObject `json:"contextObject,omitempty"`
	// expirationSeconds is how long the token is to be valid, in seconds. Default 3600.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
}

// ContextObject is the object on whose behalf a token is used.
type ContextObject struct {
	// kind of the object.
	Kind string `json:"kind"`
	// apiVersion of the object.
	APIVersion string `json:"apiVersion"`
	// name of the object.
	Name string `json:"name"`
	// namespace of the object. Empty: cluster-scoped.
	// +optional
	Namespace *string `json:"namespace,omitempty"`
	// uid of the object.
	UID types.UID `json:"uid"`
}

// TokenRequestStatus is the answer to a TokenRequest.
type TokenRequestStatus struct {
	// token is the issued token.
	Token string `json:"token"`
	// expirationTimestamp is when the token expires.
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp"`
}
