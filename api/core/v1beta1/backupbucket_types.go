package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BackupBucket is a bucket for backups. Its name is the UID of the Seed.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BackupBucket struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the location of the bucket and the Seed that uses it.
	// +optional
	Spec BackupBucketSpec `json:"spec,omitempty"`
	// status is the observed state of the bucket.
	// +optional
	Status BackupBucketStatus `json:"status,omitempty"`
}

// BackupBucketList is a list of BackupBuckets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BackupBucketList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the BackupBuckets.
	Items []BackupBucket `json:"items"`
}

// BackupBucketSpec is the location of a bucket and the Seed that uses it.
type BackupBucketSpec struct {
	// provider of the object store. Immutable.
	Provider BackupBucketProvider `json:"provider"`
	// providerConfig is read by the provider's extension only.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// seedName is the Seed that uses the bucket. Excludes shootRef. Immutable once set.
	// +optional
	SeedName *string `json:"seedName,omitempty"`
	// shootRef is the self-hosted Shoot that uses the bucket. Excludes seedName.
	// +optional
	ShootRef *corev1.ObjectReference `json:"shootRef,omitempty"`
	// credentialsRef is the v1 Secret or security.gardener.cloud/v1alpha1 WorkloadIdentity for the object store.
	// +optional
	CredentialsRef *corev1.ObjectReference `json:"credentialsRef,omitempty"`
	// secretRef is the older spelling of credentialsRef and kept equal to it when that names a Secret. Deprecated.
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
}

// BackupBucketProvider is an object store.
type BackupBucketProvider struct {
	// type of the object store, one that a ControllerRegistration offers as kind BackupBucket.
	Type string `json:"type"`
	// region of the object store.
	Region string `json:"region"`
}

// BackupBucketStatus is the observed state of a bucket.
type BackupBucketStatus struct {
	// providerStatus is written by the provider's extension.
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
	// lastOperation on the bucket.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// lastError of the last operation.
	// +optional
	LastError *LastError `json:"lastError,omitempty"`
	// observedGeneration is the generation that the gardenlet has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// generatedSecretRef is a Secret that the extension made for access to the bucket.
	// +optional
	GeneratedSecretRef *corev1.SecretReference `json:"generatedSecretRef,omitempty"`
}
