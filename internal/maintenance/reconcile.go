package maintenance

import (
	"strconv"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// ReconcileOptions are set by the operator of a gardenlet.
type ReconcileOptions struct {
	SyncPeriod                 time.Duration // Time between reconciliations of the same Shoot.
	RespectSyncPeriodOverwrite bool          // Let owners extend the period, or have a Shoot ignored, by annotation.
	InMaintenanceOnly          bool          // Reconcile only in the maintenance time window, unless something changed.
}

// ReconcileRequest is the input of a decision about a Shoot by a gardenlet.
type ReconcileRequest struct {
	Shoot         *corev1beta1.Shoot
	Operation     corev1beta1.LastOperationType // The operation that the Shoot needs.
	Version       string                        // Of the gardenlet.
	EmergencyStop bool                          // Reconciliations of the Seed's Shoots are stopped.
	Healed        bool                          // The cause of a failed operation is resolved, so it may be retried.
	Options       ReconcileOptions
}

// Reconciliation is the decision on a ReconcileRequest.
type Reconciliation struct {
	Now    bool
	Reason string // In one sentence, for explain and logs.
	// ClusterOnly is true if only the Cluster object is to be kept up to date.
	ClusterOnly bool

	inWindow bool // Now, because the maintenance window is open.
}

// retryFailedAfter is how long after its end an operation that has failed is begun again although nothing has changed.
// Only reconciliations replace certificates of a control plane, after 80 % of their life of a year. An operation that
// fails has replaced those that were due, so at least 73 days are left: two more attempts begin before the first
// certificate expires.
const retryFailedAfter = 30 * 24 * time.Hour

// maxRetryWait bounds how long a gardenlet waits until it checks a failed Shoot: timers do not follow a clock that is
// set, and stand still while a machine is suspended.
const maxRetryWait = 24 * time.Hour

// reconciledRecently bounds how old a reconciliation may be that counts for the present window, which lasts 6h at most.
const reconciledRecently = MaxWindow

// DecideReconcile decides whether a gardenlet reconciles the Shoot at the given time.
func DecideReconcile(r ReconcileRequest, now time.Time) Reconciliation {
	last := r.Shoot.Status.LastOperation
	window := WindowOf(r.Shoot)
	switch {
	case r.EmergencyStop:
		return Reconciliation{Reason: "Reconciliations of this Seed's Shoots are stopped"}
	case r.failedForGood(now):
		return Reconciliation{Reason: "The Shoot has failed and neither it nor the gardenlet has changed since" + r.again(),
			ClusterOnly: true}
	case r.ignored():
		return Reconciliation{Reason: "The Shoot is to be ignored", ClusterOnly: true}
	case r.Operation != corev1beta1.LastOperationTypeReconcile:
		return Reconciliation{Now: true, Reason: "The Shoot needs the operation " + string(r.Operation)}
	case r.Shoot.Generation != r.Shoot.Status.ObservedGeneration:
		return Reconciliation{Now: true, Reason: "The Shoot has changed"}
	case last == nil || last.State != corev1beta1.LastOperationStateSucceeded:
		return Reconciliation{Now: true, Reason: "The last operation has not succeeded"}
	case !r.confined():
		return Reconciliation{Now: true, Reason: "Shoots are reconciled at any time"}
	case window.Contains(now) && !ReconciledDuringWindow(r.Shoot, now):
		return Reconciliation{Now: true, Reason: "The maintenance window is open", inWindow: true}
	}
	return Reconciliation{Reason: "The Shoot waits for its maintenance window"}
}

// ReconciledDuringWindow reports whether the last operation was last updated in the window that is open at the given
// time.
func ReconciledDuringWindow(shoot *corev1beta1.Shoot, now time.Time) bool {
	last := shoot.Status.LastOperation
	return last != nil && WindowOf(shoot).Contains(last.LastUpdateTime.Time) &&
		now.Sub(last.LastUpdateTime.Time) <= reconciledRecently
}

// StartDelay returns how long a gardenlet that has just started waits before it checks the Shoot.
func StartDelay(r ReconcileRequest, now time.Time, jitter Jitter) time.Duration {
	window := WindowOf(r.Shoot)
	key := r.Shoot.Namespace + "/" + r.Shoot.Name
	switch d := DecideReconcile(r, now); {
	case d.inWindow:
		return window.UntilNext(now, key, true, jitter)
	case d.Now, d.ClusterOnly:
		return 0
	}
	return window.UntilNext(now, key, false, jitter)
}

// NextReconcile returns the time until the Shoot is checked again after a reconciliation, and false if only a change of
// the Shoot triggers the next one.
func NextReconcile(r ReconcileRequest, now time.Time, jitter Jitter) (time.Duration, bool) {
	switch {
	case r.ignored(), r.failedForGood(now) && !r.retried():
		return 0, false
	case r.failedForGood(now):
		return min(r.retryAt().Sub(now), maxRetryWait), true
	case r.confined():
		return WindowOf(r.Shoot).UntilNext(now, r.Shoot.Namespace+"/"+r.Shoot.Name, false, jitter), true
	}
	period := r.Options.SyncPeriod
	if r.Options.RespectSyncPeriodOverwrite {
		if d, err := time.ParseDuration(r.Shoot.Annotations[corev1beta1.AnnotationShootSyncPeriod]); err == nil {
			period = max(period, d)
		}
	}
	return period, true
}

// failedForGood: the last operation has failed, and there is no reason yet to try again.
func (r ReconcileRequest) failedForGood(now time.Time) bool {
	last := r.Shoot.Status.LastOperation
	return !r.Healed && last != nil && last.State == corev1beta1.LastOperationStateFailed &&
		r.Shoot.Generation == r.Shoot.Status.ObservedGeneration && r.Shoot.Status.Gardener.Version == r.Version &&
		!(r.retried() && !now.Before(r.retryAt()))
}

// retried: the operation is begun again some time after it has failed. Those that take a control plane away are not:
// they replace no certificates.
func (r ReconcileRequest) retried() bool {
	switch r.Operation {
	case corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationTypeReconcile, corev1beta1.LastOperationTypeRestore:
		return true
	}
	return false
}

// retryAt is when an operation that has failed is begun again.
func (r ReconcileRequest) retryAt() time.Time {
	return r.Shoot.Status.LastOperation.LastUpdateTime.Add(retryFailedAfter)
}

// again says when an operation that has failed is begun again.
func (r ReconcileRequest) again() string {
	if !r.retried() {
		return ""
	}
	return "; it is tried again on " + r.retryAt().UTC().Format(time.DateOnly)
}

func (r ReconcileRequest) ignored() bool {
	ignore, err := strconv.ParseBool(r.Shoot.Annotations[corev1beta1.AnnotationShootIgnore])
	return err == nil && ignore &&
		(r.Options.RespectSyncPeriodOverwrite || r.Shoot.Namespace == corev1beta1.GardenNamespace)
}

func (r ReconcileRequest) confined() bool {
	m := r.Shoot.Spec.Maintenance
	return r.Options.InMaintenanceOnly || m != nil && m.ConfineSpecUpdateRollout != nil && *m.ConfineSpecUpdateRollout
}
