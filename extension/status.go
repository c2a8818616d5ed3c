package extension

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/extension/errorcode"
)

const (
	progressStarted = 1
	progressFailed  = 50
	progressDone    = 100

	// recheckMax is the time after which an unfinished operation is checked again if its actuator names none: events of
	// the watches normally come long before.
	recheckMax = time.Minute
)

// progress writes the status of one object during one operation.
type progress[T Object] struct {
	client client.Client
	clock  clock.PassiveClock
	kind   string
	op     corev1beta1.LastOperationType
	obj    T
	before T // The object as the server has it.
}

func (r *Reconciler[T]) begin(obj T, op corev1beta1.LastOperationType) *progress[T] {
	return &progress[T]{client: r.Client, clock: r.Clock, kind: r.Kind, op: op, obj: obj, before: obj.DeepCopyObject().(T)}
}

// errStale: the object has been changed or deleted since the cache has seen it.
var errStale = errors.New("the object in the cache is not the newest")

// start says that the operation has begun, or returns errStale. An operation that is being retried keeps its error
// until it succeeds, so that it does not flicker.
func (p *progress[T]) start(ctx context.Context) error {
	last := p.obj.GetDefaultStatus().LastOperation
	retried := last != nil && last.Type == p.op && !operationAnnotation(p.obj) &&
		(last.State == corev1beta1.LastOperationStateProcessing || last.State == corev1beta1.LastOperationStateError)
	if !retried {
		ctrl.LoggerFrom(ctx).Info("Starting operation", "operation", p.op, "kind", p.kind)
		p.set(corev1beta1.LastOperationStateProcessing, progressStarted,
			fmt.Sprintf("%s of %s is in progress", p.op, p.kind))
	}
	return p.confirm(ctx)
}

// confirm writes the status, even without a change, and returns errStale if the object was not the newest. Otherwise an
// object with the same name could be acted upon that was created since, and an earlier success could stay in the status
// and look like that of this operation.
func (p *progress[T]) confirm(ctx context.Context) error {
	err := p.patch(ctx, client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errStale
	}
	return err
}

// finish says what came out of a call of the actuator and returns what the queue needs to know.
func (p *progress[T]) finish(ctx context.Context, result Result, actErr error) (reconcile.Result, error) {
	status := p.obj.GetDefaultStatus()
	// The actuator must not change these fields.
	kept := p.before.GetDefaultStatus()
	status.LastOperation, status.LastError, status.ObservedGeneration = kept.LastOperation, kept.LastError,
		kept.ObservedGeneration

	if apierrors.IsConflict(actErr) || apierrors.IsAlreadyExists(actErr) {
		// The cache was stale, which is no error for users.
		result, actErr = Waiting(fmt.Sprintf("%s of %s: %v", p.op, p.kind, actErr), retryMin), nil
	}
	switch {
	case actErr != nil:
		countActuation(p.kind, p.op, resultFailed)
		text := fmt.Sprintf("%s of %s failed: %v", p.op, p.kind, actErr)
		now := metav1.NewTime(p.clock.Now())
		status.ObservedGeneration = p.obj.GetGeneration()
		status.LastError = &corev1beta1.LastError{Description: text, Codes: errorcode.Of(actErr), LastUpdateTime: &now}
		p.set(corev1beta1.LastOperationStateError, progressFailed, text)
		if err := p.write(ctx); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, actErr
	case !result.IsDone():
		countActuation(p.kind, p.op, resultWaiting)
		status.LastError = nil
		p.set(corev1beta1.LastOperationStateProcessing, progressFailed, result.Reason())
		after := result.After()
		if after <= 0 || after > recheckMax {
			after = recheckMax
		}
		return reconcile.Result{RequeueAfter: after}, p.write(ctx)
	default:
		countActuation(p.kind, p.op, resultDone)
		ctrl.LoggerFrom(ctx).Info("Operation succeeded", "operation", p.op, "kind", p.kind)
		status.LastError = nil
		status.ObservedGeneration = p.obj.GetGeneration()
		// A success is always written: by its time the gardenlet matches it to a request.
		status.LastOperation = nil
		p.set(corev1beta1.LastOperationStateSucceeded, progressDone, fmt.Sprintf("%s of %s succeeded", p.op, p.kind))
		return reconcile.Result{}, p.write(ctx)
	}
}

// set changes lastOperation; its time changes only if something else does.
func (p *progress[T]) set(state corev1beta1.LastOperationState, percent int32, description string) {
	status := p.obj.GetDefaultStatus()
	next := corev1beta1.LastOperation{Type: p.op, State: state, Progress: percent, Description: description}
	if last := status.LastOperation; last != nil {
		next.LastUpdateTime = last.LastUpdateTime
		if *last == next {
			return
		}
	}
	next.LastUpdateTime = metav1.NewTime(p.clock.Now())
	status.LastOperation = &next
}

func (p *progress[T]) write(ctx context.Context) error {
	if equality.Semantic.DeepEqual(p.obj, p.before) {
		return nil
	}
	return client.IgnoreNotFound(p.patch(ctx, client.MergeFrom(p.before)))
}

func (p *progress[T]) patch(ctx context.Context, patch client.Patch) error {
	// The response has the server's spec and annotations, but the operation continues with those that it began with.
	answer := p.obj.DeepCopyObject().(T)
	if err := p.client.Status().Patch(ctx, answer, patch); err != nil {
		return fmt.Errorf("patch status of %s %s: %w", p.kind, client.ObjectKeyFromObject(p.obj), err)
	}
	p.obj.SetResourceVersion(answer.GetResourceVersion()) // The finalizer is removed under this version.
	p.before = p.obj.DeepCopyObject().(T)
	return nil
}
