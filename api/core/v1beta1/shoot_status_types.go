package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ShootStatus is what is known about a cluster.
type ShootStatus struct {
	// conditions are the aspects of the cluster's health, such as APIServerAvailable.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// constraints report which operations are possible with the cluster at present.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Constraints []Condition `json:"constraints,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// gardener is the gardenlet that worked on the Shoot last.
	Gardener Gardener `json:"gardener"`
	// hibernated is true while the cluster is stopped.
	IsHibernated bool `json:"hibernated"`
	// lastOperation is the current or last operation of the gardenlet, and its progress.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// lastErrors are the reasons why the last operation has not succeeded, with codes that classify them.
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// observedGeneration is the generation that the gardenlet has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// retryCycleStartTime is since when the operation has been failing and retried.
	// +optional
	RetryCycleStartTime *metav1.Time `json:"retryCycleStartTime,omitempty"`
	// seedName is the Seed that hosts the control plane; it differs from the spec during a migration.
	// +optional
	SeedName *string `json:"seedName,omitempty"`
	// technicalID is the name of the control plane's namespace in the Seed. Immutable once set.
	TechnicalID string `json:"technicalID"`
	// uid identifies the cluster across copies of the Shoot object. Immutable once set.
	UID types.UID `json:"uid"`
	// clusterIdentity identifies the cluster in the landscape. Immutable once set.
	// +optional
	ClusterIdentity *string `json:"clusterIdentity,omitempty"`
	// advertisedAddresses are the addresses under which the cluster is reachable.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	AdvertisedAddresses []ShootAdvertisedAddress `json:"advertisedAddresses,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// migrationStartTime is when the migration to another Seed began. Empty: none is running.
	// +optional
	MigrationStartTime *metav1.Time `json:"migrationStartTime,omitempty"`
	// credentials holds the state of the cluster's credentials.
	// +optional
	Credentials *ShootCredentials `json:"credentials,omitempty"`
	// lastHibernationTriggerTime is when a hibernation schedule acted last.
	// +optional
	LastHibernationTriggerTime *metav1.Time `json:"lastHibernationTriggerTime,omitempty"`
	// lastMaintenance is the last maintenance that changed something or failed to.
	// +optional
	LastMaintenance *LastMaintenance `json:"lastMaintenance,omitempty"`
	// networking holds the address ranges in use, which may be more than those in the spec.
	// +optional
	Networking *NetworkingStatus `json:"networking,omitempty"`
	// inPlaceUpdates lists the pools that still await an update in place.
	// +optional
	InPlaceUpdates *InPlaceUpdatesStatus `json:"inPlaceUpdates,omitempty"`
	// manualWorkerPoolRollout lists the pools whose roll-out was requested.
	// +optional
	ManualWorkerPoolRollout *ManualWorkerPoolRollout `json:"manualWorkerPoolRollout,omitempty"`
	// liveMigration is the progress of a migration without an outage.
	// +optional
	LiveMigration *LiveMigrationStatus `json:"liveMigration,omitempty"`
}

// LiveMigrationStatus is the progress of a migration without an outage.
type LiveMigrationStatus struct {
	// conditions are its milestones.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// ShootAdvertisedAddress is an address under which a cluster is reachable.
type ShootAdvertisedAddress struct {
	// name of the address, for example external or internal. Unique.
	Name string `json:"name"`
	// url is an https URL without user, query and fragment.
	URL string `json:"url"`
	// application that is reached. Empty: the API server or an ingress.
	// +optional
	Application *string `json:"application,omitempty"`
}

// ShootCredentials holds the state of a cluster's credentials.
type ShootCredentials struct {
	// rotation holds the progress of rotations.
	// +optional
	Rotation *ShootCredentialsRotation `json:"rotation,omitempty"`
	// encryptionAtRest is what is encrypted in etcd at present.
	// +optional
	EncryptionAtRest *EncryptionAtRest `json:"encryptionAtRest,omitempty"`
}

// EncryptionAtRest is what is encrypted in etcd.
type EncryptionAtRest struct {
	// resources that are encrypted in addition to secrets.
	// +optional
	Resources []string `json:"resources,omitempty"`
	// provider is the cipher.
	Provider EncryptionProviderStatus `json:"provider"`
}

// EncryptionProviderStatus is the cipher in use.
type EncryptionProviderStatus struct {
	// type is aescbc, aesgcm or secretbox.
	Type EncryptionProviderType `json:"type"`
}

// ShootCredentialsRotation holds the progress of rotations.
type ShootCredentialsRotation struct {
	// certificateAuthorities of the cluster; a rotation begins and is completed by operations of its user.
	// +optional
	CertificateAuthorities *CARotation `json:"certificateAuthorities,omitempty"`
	// sshKeypair of the machines, replaced at once.
	// +optional
	SSHKeypair *ShootSSHKeypairRotation `json:"sshKeypair,omitempty"`
	// observability credentials, replaced at once.
	// +optional
	Observability *ObservabilityRotation `json:"observability,omitempty"`
	// serviceAccountKey signs tokens of service accounts; a rotation begins and is completed by operations of its
	// user.
	// +optional
	ServiceAccountKey *ServiceAccountKeyRotation `json:"serviceAccountKey,omitempty"`
	// etcdEncryptionKey encrypts Secrets and other objects in etcd.
	// +optional
	ETCDEncryptionKey *ETCDEncryptionKeyRotation `json:"etcdEncryptionKey,omitempty"`
}

// CredentialsRotationPhase is the state of a rotation in two phases.
type CredentialsRotationPhase string

const (
	RotationPreparing                      CredentialsRotationPhase = "Preparing"
	RotationPreparingWithoutWorkersRollout CredentialsRotationPhase = "PreparingWithoutWorkersRollout"
	RotationWaitingForWorkersRollout       CredentialsRotationPhase = "WaitingForWorkersRollout"
	RotationPrepared                       CredentialsRotationPhase = "Prepared"
	RotationCompleting                     CredentialsRotationPhase = "Completing"
	RotationCompleted                      CredentialsRotationPhase = "Completed"
)

// CARotation is the progress of the rotation of certificate authorities.
type CARotation struct {
	// phase of the rotation: Preparing, PreparingWithoutWorkersRollout, WaitingForWorkersRollout, Prepared, Completing
	// or Completed. Empty: never rotated.
	Phase CredentialsRotationPhase `json:"phase"`
	// lastCompletionTime is when a rotation was completed last.
	// +optional
	LastCompletionTime *metav1.Time `json:"lastCompletionTime,omitempty"`
	// lastInitiationTime is when a rotation was started last.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
	// lastInitiationFinishedTime is when the preparation was finished last.
	// +optional
	LastInitiationFinishedTime *metav1.Time `json:"lastInitiationFinishedTime,omitempty"`
	// lastCompletionTriggeredTime is when a completion was started last.
	// +optional
	LastCompletionTriggeredTime *metav1.Time `json:"lastCompletionTriggeredTime,omitempty"`
	// pendingWorkersRollouts are the pools that must still be rolled.
	// +optional
	PendingWorkersRollouts []PendingWorkersRollout `json:"pendingWorkersRollouts,omitempty"`
}

// PendingWorkersRollout is a pool that must still be rolled.
type PendingWorkersRollout struct {
	// name of the pool whose machines still have the old credentials.
	Name string `json:"name"`
	// lastInitiationTime is the initiation that the pool's machines know.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
}

// ServiceAccountKeyRotation is the progress of the rotation of the service account key.
type ServiceAccountKeyRotation struct {
	// phase of the rotation: Preparing, PreparingWithoutWorkersRollout, WaitingForWorkersRollout, Prepared, Completing
	// or Completed. Empty: never rotated.
	Phase CredentialsRotationPhase `json:"phase"`
	// lastCompletionTime is when a rotation was completed last.
	// +optional
	LastCompletionTime *metav1.Time `json:"lastCompletionTime,omitempty"`
	// lastInitiationTime is when a rotation was started last.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
	// lastInitiationFinishedTime is when the preparation was finished last.
	// +optional
	LastInitiationFinishedTime *metav1.Time `json:"lastInitiationFinishedTime,omitempty"`
	// lastCompletionTriggeredTime is when a completion was started last.
	// +optional
	LastCompletionTriggeredTime *metav1.Time `json:"lastCompletionTriggeredTime,omitempty"`
	// pendingWorkersRollouts are the pools that must still be rolled.
	// +optional
	PendingWorkersRollouts []PendingWorkersRollout `json:"pendingWorkersRollouts,omitempty"`
}

// ETCDEncryptionKeyRotation is the progress of the rotation of the etcd encryption key.
type ETCDEncryptionKeyRotation struct {
	// phase of the rotation: Preparing, Prepared, Completing or Completed. Empty: never rotated.
	Phase CredentialsRotationPhase `json:"phase"`
	// lastCompletionTime is when a rotation was completed last.
	// +optional
	LastCompletionTime *metav1.Time `json:"lastCompletionTime,omitempty"`
	// lastInitiationTime is when a rotation was started last.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
	// lastInitiationFinishedTime is when the preparation was finished last.
	// +optional
	LastInitiationFinishedTime *metav1.Time `json:"lastInitiationFinishedTime,omitempty"`
	// lastCompletionTriggeredTime is when a completion was started last.
	// +optional
	LastCompletionTriggeredTime *metav1.Time `json:"lastCompletionTriggeredTime,omitempty"`
	// autoCompleteAfterPrepared starts the completion automatically after the preparation.
	// +optional
	AutoCompleteAfterPrepared *bool `json:"autoCompleteAfterPrepared,omitempty"`
}

// ShootSSHKeypairRotation is the progress of the rotation of the SSH key pair.
type ShootSSHKeypairRotation struct {
	// lastInitiationTime is when a rotation was started last.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
	// lastCompletionTime is when a rotation was completed last.
	// +optional
	LastCompletionTime *metav1.Time `json:"lastCompletionTime,omitempty"`
}

// ObservabilityRotation is the progress of the rotation of observability credentials.
type ObservabilityRotation struct {
	// lastInitiationTime is when a rotation was started last.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
	// lastCompletionTime is when a rotation was completed last.
	// +optional
	LastCompletionTime *metav1.Time `json:"lastCompletionTime,omitempty"`
}

// LastMaintenance is the last maintenance that changed something or failed to.
type LastMaintenance struct {
	// description is a human-readable description of what was done.
	Description string `json:"description"`
	// triggeredTime is when the maintenance ran.
	TriggeredTime metav1.Time `json:"triggeredTime"`
	// state is Processing, Succeeded or Failed.
	State LastOperationState `json:"state"`
	// failureReason is a human-readable description of what could not be done.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`
}

// NetworkingStatus holds the address ranges in use.
type NetworkingStatus struct {
	// pods are the CIDRs of the pods.
	// +optional
	Pods []string `json:"pods,omitempty"`
	// nodes are the CIDRs of the nodes.
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// services are the CIDRs of the services.
	// +optional
	Services []string `json:"services,omitempty"`
	// egressCIDRs are the source addresses of traffic to external destinations.
	// +optional
	EgressCIDRs []string `json:"egressCIDRs,omitempty"`
}

// InPlaceUpdatesStatus lists the pools that still await an update in place.
type InPlaceUpdatesStatus struct {
	// pendingWorkerUpdates are the pools by strategy.
	// +optional
	PendingWorkerUpdates *PendingWorkerUpdates `json:"pendingWorkerUpdates,omitempty"`
}

// PendingWorkerUpdates are pools that await an update in place, by strategy.
type PendingWorkerUpdates struct {
	// autoInPlaceUpdate are pools with that strategy.
	// +optional
	AutoInPlaceUpdate []string `json:"autoInPlaceUpdate,omitempty"`
	// manualInPlaceUpdate are pools with that strategy.
	// +optional
	ManualInPlaceUpdate []string `json:"manualInPlaceUpdate,omitempty"`
}

// ManualWorkerPoolRollout lists the pools whose roll-out was requested.
type ManualWorkerPoolRollout struct {
	// pendingWorkersRollouts are pools whose roll-out is not finished.
	// +optional
	PendingWorkersRollouts []PendingWorkersRollout `json:"pendingWorkersRollouts,omitempty"`
}
