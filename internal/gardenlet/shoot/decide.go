package shoot

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
)

// Action is what a reconciliation does with a Shoot.
type Action string

const (
	Drop     Action = "Drop"     // Another seed is responsible, or there is nothing to do.
	Hold     Action = "Hold"     // Wait for a decision by a user, see the reason.
	Refresh  Action = "Refresh"  // Only update the Cluster object.
	Run      Action = "Run"      // Make one pass through the flow.
	Finalize Action = "Finalize" // Everything is deleted: remove the Shoot's finalizer.
)

// Decision is an action with its reason.
type Decision struct {
	Action Action
	// Operation to run, and whether it begins now.
	Operation corev1beta1.LastOperationType
	Begin     bool
	// RequeueAfter is the time after which the Shoot is checked again, for example for its next periodic reconciliation.
	RequeueAfter time.Duration
	Reason       string
	// Task names the reason for holding the Shoot, for lastErrors.
	Task string
}

// DecideInput is the input of a decision besides the Shoot.
type DecideInput struct {
	SeedName string
	Now      time.Time
	// Version of this gardenlet: another one than before reconciles all Shoots, and retries operations that failed.
	Version string
	// EmergencyStop: nothing is done for Shoots of the seed.
	EmergencyStop bool
	Options       maintenance.ReconcileOptions
	// Jitter spreads the reconciliations of Shoots that are confined to their maintenance window.
	Jitter maintenance.Jitter
	// Healed: the extension objects that had the errors of a Failed operation have succeeded since.
	Healed bool
	// Seen is what the seed has recorded about the Shoot; nil if that is not known.
	Seen *Remembered
	// TakenOver: this seed has taken the control plane over from a lost seed. It is looked up only for Shoots that are
	// deleted before they have been created.
	TakenOver bool
}

// Decide decides what to do with a Shoot. The checks are in order; the first that applies decides. Whether a Shoot is
// reconciled is decided by the package maintenance, on which plans are based, too; nothing here overrides it.
func Decide(shoot *corev1beta1.Shoot, in DecideInput) Decision {
	operation, last := operationType(shoot, in.TakenOver), shoot.Status.LastOperation
	request := maintenance.ReconcileRequest{
		Shoot: shoot, Operation: operation, Version: in.Version,
		EmergencyStop: in.EmergencyStop, Healed: in.Healed, Options: in.Options,
	}
	now := maintenance.DecideReconcile(request, in.Now)
	wait := notNow(request, now, in)
	switch {
	case responsibleSeed(shoot) != in.SeedName:
		return Decision{Action: Drop, Reason: "another seed is responsible"}
	case shoot.DeletionTimestamp != nil && (operation == corev1beta1.LastOperationTypeDelete || released(shoot)):
		return decideDeletion(shoot, in, now.Now, wait)
	case migrating(shoot):
		return decideMigration(shoot, now.Now, wait)
	}
	if task, reason := hold(shoot, in.Seen); task != "" && !in.EmergencyStop {
		return Decision{Action: Hold, Operation: operation, Task: task, Reason: reason}
	} else if !in.EmergencyStop && (heldFor(shoot, taskOlderSpec) || heldFor(shoot, taskLostControlPlane)) {
		return Decision{Action: Run, Operation: operation, Begin: true, Reason: "the reason for holding the Shoot back is resolved"}
	}
	if !now.Now {
		return wait
	}
	begin := Decision{Action: Run, Operation: operation, Begin: true, Reason: now.Reason}
	switch {
	case last == nil, shoot.Generation != shoot.Status.ObservedGeneration,
		last.Type == corev1beta1.LastOperationTypeMigrate:
		return begin
	case last.State == corev1beta1.LastOperationStateProcessing, last.State == corev1beta1.LastOperationStateError:
		return Decision{Action: Run, Operation: operation, Reason: "the operation continues"}
	case last.State == corev1beta1.LastOperationStateFailed && in.Healed:
		return Decision{Action: Run, Operation: operation, Reason: "the failed operation has succeeded since"}
	case last.State != corev1beta1.LastOperationStateSucceeded, operation != corev1beta1.LastOperationTypeReconcile:
		return begin
	}
	if olderStatus(shoot, in.Seen) {
		begin.Reason = "the garden has been restored from a backup that is older than the last operation"
		return begin
	}
	if len(tasksOf(shoot)) > 0 {
		begin.Reason = "tasks are due"
		return begin
	}
	if by := shoot.Status.Gardener.Version; by != in.Version {
		begin.Reason = fmt.Sprintf("a gardenlet of version %s has reconciled it last, this one has version %s", by, in.Version)
		return begin
	}
	after, again := maintenance.NextReconcile(request, in.Now, in.Jitter)
	if due := last.LastUpdateTime.Add(after); again && in.Now.Before(due) && !confined(shoot, in) {
		return Decision{Action: Drop, RequeueAfter: due.Sub(in.Now), Reason: "up to date"}
	}
	return begin
}

// confined Shoots are reconciled when their window opens, not a period after the last time.
func confined(shoot *corev1beta1.Shoot, in DecideInput) bool {
	m := shoot.Spec.Maintenance
	return in.Options.InMaintenanceOnly || m != nil && ptr.Deref(m.ConfineSpecUpdateRollout, false)
}

// notNow is the decision for a Shoot that is not to be reconciled. It is looked at again: nothing else reports that its
// window has opened, or that it is time to try again what has failed.
func notNow(request maintenance.ReconcileRequest, answer maintenance.Reconciliation, in DecideInput) Decision {
	d := Decision{Action: Drop, Reason: answer.Reason}
	if answer.ClusterOnly {
		d.Action = Refresh
	}
	if after, again := maintenance.NextReconcile(request, in.Now, in.Jitter); again {
		d.RequeueAfter = after
	}
	return d
}

// decideDeletion decides about a Shoot that is being deleted. If nothing may happen to it now, as during an emergency
// stop or while it is ignored, the decision is wait. A deletion that has failed needs a reason to be tried again.
func decideDeletion(shoot *corev1beta1.Shoot, in DecideInput, now bool, wait Decision) Decision {
	last := shoot.Status.LastOperation
	const operation = corev1beta1.LastOperationTypeDelete
	switch {
	case released(shoot):
		return Decision{Action: Drop, Reason: "deleted already"}
	case shoot.SourceIsDead():
		return Decision{Action: Drop, Reason: sourceIsDead}
	case !now:
		return wait
	case shoot.Status.UID == "":
		return Decision{Action: Finalize, Operation: operation, Reason: "nothing was ever created"}
	case last == nil || last.Type != operation || shoot.Generation != shoot.Status.ObservedGeneration:
		return Decision{Action: Run, Operation: operation, Begin: true, Reason: "deletion"}
	case last.State == corev1beta1.LastOperationStateSucceeded:
		return Decision{Action: Finalize, Operation: operation, Reason: "everything is gone"}
	case last.State == corev1beta1.LastOperationStateFailed && !in.Healed:
		return Decision{Action: Run, Operation: operation, Begin: true, Reason: "a new gardenlet tries again"}
	}
	return Decision{Action: Run, Operation: operation, Reason: "the deletion continues"}
}

// sourceIsDead is the reason why a seed ignores a Shoot that another one takes over.
const sourceIsDead = "an operator has declared this seed dead"

// released: no gardenlet has anything left to do for the Shoot.
func released(shoot *corev1beta1.Shoot) bool {
	return !slices.Contains(shoot.Finalizers, corev1beta1.FinalizerName)
}

// decideMigration lets a move begin when its destination is ready. One that has begun continues whatever the
// destination says: it waits for it by itself as long as the API server runs, and must not stop after that.
func decideMigration(shoot *corev1beta1.Shoot, now bool, wait Decision) Decision {
	last := shoot.Status.LastOperation
	const operation = corev1beta1.LastOperationTypeMigrate
	if !now {
		return wait
	}
	if shoot.SourceIsDead() {
		return Decision{Action: Drop, Reason: sourceIsDead}
	}
	begun := last != nil && last.Type == operation && shoot.Generation == shoot.Status.ObservedGeneration
	if begun && last.State != corev1beta1.LastOperationStateFailed {
		return Decision{Action: Run, Operation: operation, Reason: "the move continues"}
	}
	ready := corev1beta1.FindCondition(shoot.Status.Constraints, corev1beta1.ShootReadyForMigration)
	if ready == nil || ready.Status != corev1beta1.ConditionTrue {
		return Decision{Action: Refresh, RequeueAfter: seedPeriod, Reason: "the destination of the move is not ready"}
	}
	return Decision{Action: Run, Operation: operation, Begin: true, Reason: "the control plane is to move to another seed"}
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

// unknownHere: a Shoot that is to be deleted has things at the provider that this seed learns of only by the operation
// which brings the control plane here. That ends first. A forced deletion touches nothing there.
func unknownHere(shoot *corev1beta1.Shoot, takenOver bool) bool {
	last := shoot.Status.LastOperation
	if last == nil || migrating(shoot) || forced(shoot) {
		return false
	}
	switch last.Type {
	case corev1beta1.LastOperationTypeMigrate:
		return true
	case corev1beta1.LastOperationTypeRestore:
		return last.State != corev1beta1.LastOperationStateSucceeded
	}
	return takenOver && beingCreated(shoot)
}

// beingCreated: the control plane has never run completely.
func beingCreated(shoot *corev1beta1.Shoot) bool {
	last := shoot.Status.LastOperation
	return last == nil || last.Type == corev1beta1.LastOperationTypeCreate &&
		last.State != corev1beta1.LastOperationStateSucceeded
}

// operationType is what reconciling the Shoot means in its present state. It may have been taken over from a seed that
// is gone.
func operationType(shoot *corev1beta1.Shoot, takenOver bool) corev1beta1.LastOperationType {
	last := shoot.Status.LastOperation
	switch {
	case shoot.DeletionTimestamp != nil && !unknownHere(shoot, takenOver):
		return corev1beta1.LastOperationTypeDelete
	case migrating(shoot):
		return corev1beta1.LastOperationTypeMigrate
	case beingCreated(shoot):
		return corev1beta1.LastOperationTypeCreate
	case last.Type == corev1beta1.LastOperationTypeMigrate, // Moved here, or cancelled: extensions have stopped acting.
		last.Type == corev1beta1.LastOperationTypeRestore && last.State != corev1beta1.LastOperationStateSucceeded:
		return corev1beta1.LastOperationTypeRestore
	}
	return corev1beta1.LastOperationTypeReconcile
}
