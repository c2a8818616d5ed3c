package etcdbackup

import (
	"time"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// Port is where the service listens by default.
const Port = 2382

// Phase says what the process is doing.
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

// Status is what GET /v1/status answers.
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
	// LastError is the newest failure, until the same thing has succeeded.
	LastError *Failure `json:"lastError,omitempty"`
	// Etcd is the process that the backups are taken of.
	Etcd Etcd `json:"etcd"`
}

// EtcdState says what the etcd of a member is doing.
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
	// EtcdSuperseded means that there is a newer owner: etcd was stopped for good.
	EtcdSuperseded EtcdState = "Superseded"
	// EtcdStandby means that etcd is started only on request.
	EtcdStandby EtcdState = "Standby"
	// EtcdStopped means that the process is ending.
	EtcdStopped EtcdState = "Stopped"
)

// Etcd is the state of the etcd of a member.
type Etcd struct {
	State EtcdState `json:"state"`
	// Message says why etcd is not running; while it is started again, why it did not run before.
	Message string `json:"message,omitempty"`
	// Configuration is the checksum of the certificates, bundles and flags that etcd runs with; empty if it does not run.
	Configuration string `json:"configuration,omitempty"`
	// Epoch and Holder of the owner that etcd runs for.
	Epoch  int64  `json:"epoch,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Data says what the process has found as its data directory: fine, broken or missing; empty before it has looked. It
	// is fine as soon as etcd runs.
	Data string `json:"data,omitempty"`
	// Starts counts how often this process has started etcd.
	Starts int `json:"starts"`
	// Restored is what the data directory was restored to; nil if this process has found one that was fine.
	Restored *Restored `json:"restored,omitempty"`
}

// Restored is what a data directory was restored to.
type Restored struct {
	// Revision of etcd; what follows has higher ones, since clients may have seen some that are lost.
	Revision int64 `json:"revision"`
	// Stored is when the newest object that was used was written, by the clock of its writer.
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

// Snapshot is what POST /v1/snapshot answers: everything up to Revision is in the store.
type Snapshot struct {
	// Object is the name of the newest object below the prefix; empty if nothing had to be written.
	Object   string `json:"object,omitempty"`
	Revision int64  `json:"revision"`
}
