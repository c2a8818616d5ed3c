package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdminKubeconfigRequest requests an administrator's kubeconfig of a Shoot.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type AdminKubeconfigRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the requested validity of the kubeconfig.
	Spec AdminKubeconfigRequestSpec `json:"spec"`
	// status holds the kubeconfig.
	// +optional
	Status AdminKubeconfigRequestStatus `json:"status,omitempty"`
}

// AdminKubeconfigRequestSpec is a request for a kubeconfig.
type AdminKubeconfigRequestSpec struct {
	// expirationSeconds is how long the credentials are to be valid, 600 to 4294967295 seconds; cut to the
	// server's maximum. Default 3600.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
}

// AdminKubeconfigRequestStatus is the answer to a request for a kubeconfig.
type AdminKubeconfigRequestStatus struct {
	// kubeconfig has a context for each address of the API server, the first being the current one, and a client
	// certificate of an administrator.
	Kubeconfig []byte `json:"kubeconfig"`
	// expirationTimestamp is when the credentials expire.
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp"`
}

// ViewerKubeconfigRequest requests a reader's kubeconfig of a Shoot.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ViewerKubeconfigRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the requested validity of the kubeconfig.
	Spec ViewerKubeconfigRequestSpec `json:"spec"`
	// status holds the kubeconfig.
	// +optional
	Status ViewerKubeconfigRequestStatus `json:"status,omitempty"`
}

// ViewerKubeconfigRequestSpec is a request for a kubeconfig.
type ViewerKubeconfigRequestSpec struct {
	// expirationSeconds is how long the credentials are to be valid, 600 to 4294967295 seconds; cut to the
	// server's maximum. Default 3600.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
}

// ViewerKubeconfigRequestStatus is the answer to a request for a kubeconfig.
type ViewerKubeconfigRequestStatus struct {
	// kubeconfig has a context for each address of the API server, the first being the current one, and a client
	// certificate of a reader.
	Kubeconfig []byte `json:"kubeconfig"`
	// expirationTimestamp is when the credentials expire.
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp"`
}
