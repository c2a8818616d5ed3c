package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BackupEntryKind is the kind of a [BackupEntry].
const BackupEntryKind = "BackupEntry"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=backupentries,scope=Cluster,shortName=be,singular=backupentry
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name="Region",JSONPath=".spec.region",type=string,description="Region of the object."
// +kubebuilder:printcolumn:name="Bucket",JSONPath=".spec.bucketName",type=string,description="Bucket of the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// BackupEntry is the place of one Shoot's etcd backups in a bucket.
type BackupEntry struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec BackupEntrySpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status BackupEntryStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *BackupEntry) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *BackupEntry) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// BackupEntryList is a list of BackupEntry objects.
type BackupEntryList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []BackupEntry `json:"items"`
}

// BackupEntrySpec is the desired state of a BackupEntry.
type BackupEntrySpec struct {
	DefaultSpec `json:",inline"`
	// backupBucketProviderStatus is the providerStatus of the BackupBucket.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	BackupBucketProviderStatus *runtime.RawExtension `json:"backupBucketProviderStatus,omitempty"`
	// region is where the bucket lies. Required.
	Region string `json:"region"`
	// bucketName names the bucket. Required.
	BucketName string `json:"bucketName"`
	// secretRef names the Secret with the provider's credentials. Required.
	SecretRef corev1.SecretReference `json:"secretRef"`
}

// BackupEntryStatus is the observed state of a BackupEntry.
type BackupEntryStatus struct {
	DefaultStatus `json:",inline"`
}
