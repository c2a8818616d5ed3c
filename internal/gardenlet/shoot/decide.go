package shoot

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Action is what a reconciliation does with a Shoot.
type Action string

const (
	Drop     Action = "Drop"     // Not ours, or nothing to do.
	Refresh  Action = "Refresh"  // Only keep the Cluster object up to date.
	Run      Action = "Run"      // One pass of the flow.
	Finalize Action = "Finalize" // Everything is gone: let the Shoot go.
)

// Decision is an action with its reason.
type Decision struct {
	Action Action
	// Operation that is run, and whether it begins now.
	Operation corev1beta1.LastOperationType
	Begin     bool
	// RequeueAfter is when the next periodic reconciliation is due.
	RequeueAfter time.Duration
	Reason       string
}

// DecideInput is what a decision depends on besides the Shoot.
type DecideInput struct {
	SeedName string
	Now      time.Time
	// SyncPeriod between reconciliations of a Shoot that succeeded. RespectOverwrite honours a longer one of the user.
	SyncPeriod       time.Duration
	RespectOverwrite bool
	// Healed: the extension objects that had the errors of a Failed operation have succeeded since.
	Healed bool
	// SeedDeleting: the seed is going away; its Shoots are still reconciled.
	SeedDeleting bool
}

// Decide says what is to be done with a Shoot. The checks are in order; the first that applies decides.
func Decide(shoot *corev1beta1.Shoot, in DecideInput) Decision {
	if responsibleSeed(shoot) != in.SeedName {
		return Decision{Action: Drop, Reason: "another seed is responsible"}
	}
	if shoot.DeletionTimestamp != nil {
		return decideDeletion(shoot, in)
	}
	if migrating(shoot) {
		return Decision{Action: Refresh, Reason: "the control plane is to be moved to another seed"}
	}
	operation, last := operationType(shoot), shoot.Status.LastOperation
	if ignored(shoot) {
		return Decision{Action: Refresh, Reason: "reconciliation is switched off by annotation"}
	}
	begin := Decision{Action: Run, Operation: operation, Begin: true}
	switch {
	case last == nil:
		begin.Reason = "new"
		return begin
	case shoot.Generation != shoot.Status.ObservedGeneration:
		begin.Reason = "the specification has changed"
		return begin
	case last.State == corev1beta1.LastOperationStateFailed:
		if in.Healed {
			return Decision{Action: Run, Operation: operation, Reason: "what had failed has succeeded since"}
		}
		return Decision{Action: Refresh, Reason: "the last operation failed; a change or a retry is needed"}
	case last.State == corev1beta1.LastOperationStateProcessing, last.State == corev1beta1.LastOperationStateError:
		return Decision{Action: Run, Operation: operation, Reason: "the operation goes on"}
	case last.State == corev1beta1.LastOperationStatePending, last.State == corev1beta1.LastOperationStateAborted:
		begin.Reason = "the operation is pending"
		return begin
	}
	due := last.LastUpdateTime.Add(syncPeriod(shoot, in))
	if !in.Now.Before(due) {
		begin.Reason = "periodic reconciliation"
		return begin
	}
	return Decision{Action: Drop, RequeueAfter: due.Sub(in.Now), Reason: "up to date"}
}

func decideDeletion(shoot *corev1beta1.Shoot, in DecideInput) Decision {
	last := shoot.Status.LastOperation
	const operation = corev1beta1.LastOperationTypeDelete
	switch {
	case !slices.Contains(shoot.Finalizers, corev1beta1.FinalizerName):
		return Decision{Action: Drop, Reason: "deleted already"}
	case shoot.Status.UID == "":
		return Decision{Action: Finalize, Operation: operation, Reason: "nothing was ever created"}
	case last == nil || last.Type != operation || shoot.Generation != shoot.Status.ObservedGeneration:
		return Decision{Action: Run, Operation: operation, Begin: true, Reason: "deletion"}
	case last.State == corev1beta1.LastOperationStateSucceeded:
		return Decision{Action: Finalize, Operation: operation, Reason: "everything is gone"}
	case last.State == corev1beta1.LastOperationStateFailed && !in.Healed:
		return Decision{Action: Refresh, Reason: "the deletion failed; a change or a retry is needed"}
	}
	return Decision{Action: Run, Operation: operation, Reason: "the deletion goes on"}
}

// responsibleSeed is the one whose gardenlet acts: while a migration is being prepared, the old one.
func responsibleSeed(shoot *corev1beta1.Shoot) string {
	if name := ptr.Deref(shoot.Status.SeedName, ""); name != "" {
		return name
	}
	return ptr.Deref(shoot.Spec.SeedName, "")
}

// migrating: the control plane is on another seed than it should be.
func migrating(shoot *corev1beta1.Shoot) bool {
	status := ptr.Deref(shoot.Status.SeedName, "")
	return status != "" && status != ptr.Deref(shoot.Spec.SeedName, "")
}

// operationType is what reconciling the Shoot means in its present state.
func operationType(shoot *corev1beta1.Shoot) corev1beta1.LastOperationType {
	last := shoot.Status.LastOperation
	switch {
	case shoot.DeletionTimestamp != nil:
		return corev1beta1.LastOperationTypeDelete
	case last == nil, last.Type == corev1beta1.LastOperationTypeCreate && last.State != corev1beta1.LastOperationStateSucceeded:
		return corev1beta1.LastOperationTypeCreate
	case last.Type == corev1beta1.LastOperationTypeMigrate && (last.State == corev1beta1.LastOperationStateSucceeded || last.State == corev1beta1.LastOperationStateAborted),
		last.Type == corev1beta1.LastOperationTypeRestore && last.State != corev1beta1.LastOperationStateSucceeded:
		return corev1beta1.LastOperationTypeRestore
	}
	return corev1beta1.LastOperationTypeReconcile
}

// ignored: the operator has switched the reconciliation off. Only Shoots of the operator's own project may do that.
func ignored(shoot *corev1beta1.Shoot) bool {
	on, err := strconv.ParseBool(shoot.Annotations[corev1beta1.AnnotationShootIgnore])
	return err == nil && on && shoot.Namespace == corev1beta1.GardenNamespace
}

// syncPeriod is the configured one or, where that is allowed, a longer one of the user.
func syncPeriod(shoot *corev1beta1.Shoot, in DecideInput) time.Duration {
	if own, err := time.ParseDuration(shoot.Annotations[corev1beta1.AnnotationShootSyncPeriod]); err == nil && in.RespectOverwrite && own > in.SyncPeriod {
		return own
	}
	return in.SyncPeriod
}
