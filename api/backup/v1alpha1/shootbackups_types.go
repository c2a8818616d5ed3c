package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds of backups.
const (
	// BackupFull is a snapshot of the whole etcd.
	BackupFull = "full"
	// BackupDelta holds every event of a range of revisions.
	BackupDelta = "delta"
)

// ShootBackups lists the backups of a Shoot's etcd. It is the answer of the subresource backups of Shoots and is not
// stored.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ShootBackups struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata: name and namespace of the Shoot.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// chains are full snapshots with the deltas that extend them, the newest first. Every revision of a chain from
	// restorableFrom on can be restored. Set by the API server.
	Chains []BackupChain `json:"chains"`
	// restorableFrom is the first point that can be restored: before it, the Shoot was not completely created, or its etcd
	// was encrypted with other keys. Chains that end before it are left out. Empty until the Shoot has been created. Set
	// by the API server.
	// +optional
	RestorableFrom *RestorePoint `json:"restorableFrom,omitempty"`
	// truncated is true if there are more backups than an answer holds; the oldest are left out. Set by the API server.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
}

// RestorePoint is a state of etcd.
type RestorePoint struct {
	// revision of etcd.
	Revision int64 `json:"revision"`
	// time at which the revision was in the backups.
	Time metav1.Time `json:"time"`
}

// BackupChain is a full snapshot and the deltas that extend it without a gap between revisions.
type BackupChain struct {
	// full is the snapshot that the chain begins with.
	Full Backup `json:"full"`
	// deltas follow one another, ordered by revision. Empty right after the snapshot.
	// +optional
	Deltas []Backup `json:"deltas,omitempty"`
}

// Backup is one object in the object store.
type Backup struct {
	// kind is full or delta.
	Kind string `json:"kind"`
	// epoch counts the moves of the control plane, from 1 on.
	Epoch int64 `json:"epoch"`
	// firstRevision is the first revision of etcd that the backup holds; 1 for a full snapshot.
	FirstRevision int64 `json:"firstRevision"`
	// lastRevision is the last revision of etcd that the backup holds.
	LastRevision int64 `json:"lastRevision"`
	// time is when the backup was begun.
	Time metav1.MicroTime `json:"time"`
	// sizeBytes is the size in the object store, in bytes.
	SizeBytes int64 `json:"sizeBytes"`
}
