package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupEntry is the place of one Shoot's backups in a bucket.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BackupEntry struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec names the bucket and its user.
	// +optional
	Spec BackupEntrySpec `json:"spec,omitempty"`
	// status is the observed state of the entry.
	// +optional
	Status BackupEntryStatus `json:"status,omitempty"`
}

// BackupEntryList is a list of BackupEntries.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BackupEntryList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the BackupEntries.
	Items []BackupEntry `json:"items"`
}

// BackupEntrySpec names the bucket and its user.
type BackupEntrySpec struct {
	// bucketName names the BackupBucket.
	BucketName string `json:"bucketName"`
	// seedName is the Seed that is to use the entry. Excludes shootRef.
	// +optional
	SeedName *string `json:"seedName,omitempty"`
	// shootRef is the self-hosted Shoot that uses the entry. Excludes seedName.
	// +optional
	ShootRef *corev1.ObjectReference `json:"shootRef,omitempty"`
}

// BackupEntryStatus is the observed state of an entry.
type BackupEntryStatus struct {
	// lastOperation on the entry.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// lastError of the last operation.
	// +optional
	LastError *LastError `json:"lastError,omitempty"`
	// observedGeneration is the generation that the gardenlet has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// seedName is the Seed that uses the entry; it differs from the spec during a migration.
	// +optional
	SeedName *string `json:"seedName,omitempty"`
	// migrationStartTime is when the migration to another Seed began. Empty: none is running.
	// +optional
	MigrationStartTime *metav1.Time `json:"migrationStartTime,omitempty"`
}
