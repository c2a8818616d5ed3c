package etcdbackup

import (
	"time"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// Port is the default port of the service.
const Port = 2382

// Phase is the state of the backups of a process.
type Phase string

// The phases.
const (
	// PhaseStarting means that etcd or the store has not been reached yet.
	PhaseStarting Phase = "Starting"
	// PhaseActive means that backups are being taken.
	PhaseActive Phase = "Active"
	// PhaseStandby means that another member leads the etcd cluster and takes the backups.
	PhaseStandby Phase = "Standby"
	// PhaseSuperseded means that a newer epoch has been claimed: this owner must not write any more.
	PhaseSuperseded Phase = "Superseded"
	// PhaseFailing means that etcd or the store fails; it is tried again.
	PhaseFailing Phase = "Failing"
)

// Status is the response to GET /v1/status.
type Status struct {
	Phase Phase `json:"phase"`
	Epoch int64 `json:"epoch"`
	// Holder of the epoch.
	Holder string `json:"holder,omitempty"`
	// Location of the store, and the prefix in it.
	Location string `json:"location"`
	Prefix   string `json:"prefix"`
	// EtcdRevision is the newest revision that is known.
	EtcdRevision int64 `json:"etcdRevision"`
	// SavedRevision is the last revision that can be restored.
	SavedRevision int64 `json:"savedRevision"`
	// SecondsBehind is the age of the oldest change that is not in the store; 0 when everything is.
	SecondsBehind float64 `json:"secondsBehind"`
	// LastFull and LastDelta are the newest objects.
	LastFull  *chain.Object `json:"lastFull,omitempty"`
	LastDelta *chain.Object `json:"lastDelta,omitempty"`
	// Chains, Objects and SizeBytes of the store, as of the last listing.
	Chains    int   `json:"chains"`
	Objects   int   `json:"objects"`
	SizeBytes int64 `json:"sizeBytes"`
	// LastVerification is the newest one.
	LastVerification *Verification `json:"lastVerification,omitempty"`
	// LastError is the newest failure, until the same operation has succeeded.
	LastError *Failure `json:"lastError,omitempty"`
	// Etcd is the state of the etcd that is backed up.
	Etcd Etcd `json:"etcd"`
}

// EtcdState is the state of a member's etcd.
type EtcdState string

// The states.
const (
	// EtcdPreparing means that the data directory is being checked, or restored.
	EtcdPreparing EtcdState = "Preparing"
	// EtcdStarting means that etcd has been started and does not answer yet.
	EtcdStarting EtcdState = "Starting"
	// EtcdRunning means that etcd answers.
	EtcdRunning EtcdState = "Running"
	// EtcdFailing means that etcd could not be started, or has ended; it is tried again.
	EtcdFailing EtcdState = "Failing"
	// EtcdWaiting means that neither bucket nor garden has confirmed the epoch yet.
	EtcdWaiting EtcdState = "Waiting"
	// EtcdFenced means that neither bucket nor garden has confirmed the epoch for the fence time: etcd was stopped, and
	// starts again when one of them does.
	EtcdFenced EtcdState = "Fenced"
	// EtcdSuperseded means that there is a newer owner: etcd was stopped permanently.
	EtcdSuperseded EtcdState = "Superseded"
	// EtcdStandby means that etcd is started only on request.
	EtcdStandby EtcdState = "Standby"
	// EtcdStopped means that the process is ending.
	EtcdStopped EtcdState = "Stopped"
)

// Etcd is the state of the etcd of a member.
type Etcd struct {
	State EtcdState `json:"state"`
	// Message says why etcd is not running, or, while it is being restarted, why it was not running before.
	Message string `json:"message,omitempty"`
	// Configuration is the checksum of the certificates, bundles and flags that etcd runs with; empty if it does not run.
	Configuration string `json:"configuration,omitempty"`
	// Epoch and Holder of the owner that etcd runs for.
	Epoch  int64  `json:"epoch,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Data is the state of the data directory that the process has found: fine, broken or missing; empty before the
	// check. It is fine as soon as etcd runs.
	Data string `json:"data,omitempty"`
	// Starts counts how often this process has started etcd.
	Starts int `json:"starts"`
	// Restored is the point that the data directory was restored to; nil if this process has found an intact one.
	Restored *Restored `json:"restored,omitempty"`
}

// Restored is the point that a data directory was restored to.
type Restored struct {
	// Revision of etcd after the restore. Later changes have much higher revisions, since clients may have seen lost
	// ones.
	Revision int64 `json:"revision"`
	// Stored is the time at which the newest object used was written, by its writer's clock.
	Stored time.Time `json:"stored"`
}

// Verification is the outcome of restoring a chain as a test.
type Verification struct {
	Time     time.Time `json:"time"`
	Revision int64     `json:"revision"`
	// Keys that exist at that revision.
	Keys int64 `json:"keys"`
	// HashCompared says that the keys' checksum was compared with the one that etcd had computed.
	HashCompared bool `json:"hashCompared"`
	// Error says why the chain cannot be restored; empty if it can.
	Error string `json:"error,omitempty"`
}

// Failure is an error and when it happened.
type Failure struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
	// Operation that failed: full, delta, retention, verification, maintenance.
	Operation string `json:"operation"`
}

// Snapshot is the response to POST /v1/snapshot: everything up to Revision is in the store.
type Snapshot struct {
	// Object is the name of the newest object below the prefix; empty if nothing had to be written.
	Object   string `json:"object,omitempty"`
	Revision int64  `json:"revision"`
}
