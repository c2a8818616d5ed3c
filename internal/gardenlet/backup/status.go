package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

// Report is the result of one pass of an operation.
type Report struct {
	State       corev1beta1.LastOperationState
	Description string
	// Codes of the error.
	Codes []corev1beta1.ErrorCode
}

// Processing, Pending, Failed and Succeeded return reports.
func Processing(description string) Report {
	return Report{State: corev1beta1.LastOperationStateProcessing, Description: description}
}

// Pending: nothing is done until something else has happened.
func Pending(description string) Report {
	return Report{State: corev1beta1.LastOperationStatePending, Description: description}
}

// Failed says what has failed; it is retried.
func Failed(description string, codes ...corev1beta1.ErrorCode) Report {
	return Report{State: corev1beta1.LastOperationStateError, Description: description, Codes: codes}
}

// Succeeded completes an operation.
func Succeeded(description string) Report {
	return Report{State: corev1beta1.LastOperationStateSucceeded, Description: description}
}

// FromError reports an error of the pass itself. Conflicts and similar errors are not reported to users: ok is false.
func FromError(err error) (report Report, ok bool) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return Report{}, false
	}
	if errors.Is(err, ErrUnusable) {
		return Failed(err.Error(), corev1beta1.ErrorConfigurationProblem), true
	}
	return Failed(err.Error()), true
}

// FromExtension reports what an extension has not completed yet.
func FromExtension(p extensionobject.Progress) Report {
	if p.State == extensionobject.Failed {
		return Failed(p.Reason, p.Codes...)
	}
	return Processing(p.Reason)
}

// Status has the fields of a status that a report changes.
type Status struct {
	LastOperation **corev1beta1.LastOperation
	LastError     **corev1beta1.LastError
}

// Progress of operations, in percent, by state. Extensions do not report their progress as a number.
const (
	progressStarted = 10
	progressFailed  = 50
	progressDone    = 100
)

// Set writes a report into the status. Timestamps change only together with the values they belong to. An operation
// that is retried keeps its error until it succeeds or becomes Pending, so that the error does not come and go.
func (s Status) Set(operation corev1beta1.LastOperationType, r Report, now time.Time) {
	last, at := *s.LastOperation, metav1.Time{Time: now}
	retried := last != nil && last.Type == operation && last.State == corev1beta1.LastOperationStateError
	if retried && r.State == corev1beta1.LastOperationStateProcessing && *s.LastError != nil {
		return
	}
	if operation == corev1beta1.LastOperationTypeReconcile && r.State == corev1beta1.LastOperationStateSucceeded &&
		last != nil && last.State == r.State {
		return // Nothing had to be done, so the last operation stays visible.
	}
	op := corev1beta1.LastOperation{Type: operation, State: r.State, Description: r.Description,
		Progress: progressStarted}
	switch r.State {
	case corev1beta1.LastOperationStatePending:
		op.Progress = 0
		*s.LastError = nil
	case corev1beta1.LastOperationStateError:
		op.Progress = progressFailed
		failure := &corev1beta1.LastError{Description: r.Description, Codes: r.Codes, LastUpdateTime: &at}
		if old := *s.LastError; old != nil && old.Description == r.Description && slices.Equal(old.Codes, r.Codes) {
			failure.LastUpdateTime = old.LastUpdateTime
		}
		*s.LastError = failure
	case corev1beta1.LastOperationStateSucceeded:
		op.Progress = progressDone
		*s.LastError = nil
	}
	if last != nil {
		op.LastUpdateTime = last.LastUpdateTime
	}
	if last == nil || *last != op {
		op.LastUpdateTime = at
		*s.LastOperation = &op
	}
}

// FailingSince is the time at which the present error first occurred; zero without an error.
func FailingSince(e *corev1beta1.LastError) time.Time {
	if e == nil || e.LastUpdateTime == nil {
		return time.Time{}
	}
	return e.LastUpdateTime.Time
}

// Operation is the operation of an object that is not being deleted: Create until that has succeeded once, then
// Reconcile.
func Operation(last *corev1beta1.LastOperation) corev1beta1.LastOperationType {
	if last == nil || last.Type == corev1beta1.LastOperationTypeCreate &&
		last.State != corev1beta1.LastOperationStateSucceeded {
		return corev1beta1.LastOperationTypeCreate
	}
	return corev1beta1.LastOperationTypeReconcile
}

// Event returns the event about a change of the last operation: success or error. The reason is empty if there is none.
func Event(before, after *corev1beta1.LastOperation) (kind, reason, action string) {
	if after == nil || before != nil && before.State == after.State && before.Type == after.Type {
		return "", "", ""
	}
	deletion := after.Type == corev1beta1.LastOperationTypeDelete
	action = string(after.Type)
	switch {
	case after.State == corev1beta1.LastOperationStateSucceeded && deletion:
		return corev1.EventTypeNormal, corev1beta1.EventDeleted, action
	case after.State == corev1beta1.LastOperationStateSucceeded:
		return corev1.EventTypeNormal, corev1beta1.EventReconciled, action
	case after.State == corev1beta1.LastOperationStateError && deletion:
		return corev1.EventTypeWarning, corev1beta1.EventDeleteError, action
	case after.State == corev1beta1.LastOperationStateError:
		return corev1.EventTypeWarning, corev1beta1.EventReconcileError, action
	}
	return "", "", ""
}

// PatchStatus writes the status of obj if it differs from before, the copy taken when obj was read. Unlike
// kube.PatchStatus it fails with a conflict if the object has been written since: two seeds may act on an entry in
// turn, and a seed that has handed it over must not write to it any more. If the object has been deleted meanwhile,
// that is no error.
func PatchStatus[T client.Object](ctx context.Context, c client.Client, obj, before T) error {
	if equality.Semantic.DeepEqual(obj, before) {
		return nil
	}
	answer := obj.DeepCopyObject().(T)
	err := c.Status().Patch(ctx, answer, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	if err == nil {
		obj.SetResourceVersion(answer.GetResourceVersion())
	}
	return nil
}
