package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupBucketKind is the kind of a [BackupBucket].
const BackupBucketKind = "BackupBucket"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=backupbuckets,scope=Cluster,shortName=bb,singular=backupbucket
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name="Region",JSONPath=".spec.region",type=string,description="Region of the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// BackupBucket is an object store bucket for the etcd backups of a seed.
type BackupBucket struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec BackupBucketSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status BackupBucketStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *BackupBucket) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *BackupBucket) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// BackupBucketList is a list of BackupBucket objects.
type BackupBucketList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []BackupBucket `json:"items"`
}

// BackupBucketSpec is the desired state of a BackupBucket.
type BackupBucketSpec struct {
	DefaultSpec `json:",inline"`
	// region is where the bucket lies. Required, immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Region string `json:"region"`
	// secretRef names the Secret with the provider's credentials. Required.
	SecretRef corev1.SecretReference `json:"secretRef"`
}

// BackupBucketStatus is the observed state of a BackupBucket.
type BackupBucketStatus struct {
	DefaultStatus `json:",inline"`
	// generatedSecretRef names a Secret with credentials for this bucket only, if the extension made one.
	// +optional
	GeneratedSecretRef *corev1.SecretReference `json:"generatedSecretRef,omitempty"`
}
