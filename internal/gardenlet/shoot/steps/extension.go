package steps

import (
	"context"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// trigger says when a reconciliation requests an operation of an extension object.
type trigger int

const (
	// triggerAlways requests a reconciliation once per operation.
	triggerAlways trigger = iota
	// triggerIfNeeded requests one only if the object differs from the desired one, has not succeeded, or a task demands
	// it. It is for objects whose reconciliation is expensive or disruptive.
	triggerIfNeeded
)

// extensionRequest is what a step wants of an extension.
type extensionRequest struct {
	object  extensionsv1alpha1.Object // Metadata and spec.
	trigger trigger
	// task is the task by which a user or another controller requests a reconciliation of the object; may be empty.
	task string
	// severe is how long errors with codes are tolerated before the step fails.
	severe time.Duration
	// timeout is how long all other waits may last before they are an error; 0 for the step's limit.
	timeout time.Duration
}

// reconcile creates or updates the object, asks the extension to act if it is due, and reports how far it is.
func (extensions *Extensions) reconcile(ctx context.Context, r extensionRequest) (flow.Outcome, error) {
	kind := extensionobject.KindOf(r.object)
	current := r.object.DeepCopyObject().(extensionsv1alpha1.Object)
	found, err := kube.Exists(ctx, extensions.seed, current)
	if err != nil {
		return flow.Outcome{}, err
	}
	now := extensions.seed.clock.Now()
	if extensions.values.Restoring() && (!found || toRestore(current)) {
		return extensions.restore(ctx, r.object, current, found)
	}
	if !found {
		extensionobject.SetSpec(r.object, r.object)
		stamp(r.object, extensionsv1alpha1.OperationReconcile, now)
		if err := extensions.seed.Create(ctx, r.object); err != nil && !apierrors.IsAlreadyExists(err) {
			return flow.Outcome{}, fmt.Errorf("create %s %q: %w", kind, r.object.GetName(), err)
		}
		return waitingFor(r.object, " is being created"), nil
	}
	if current.GetDeletionTimestamp() != nil {
		return waitingFor(current, " is being deleted before it can be created again"), nil
	}
	changed := extensionobject.SpecDiffers(current, r.object)
	if changed || triggerDue(current, r.trigger, extensions.values.hasTask(r.task), extensions.values.Started) {
		before := current.DeepCopyObject().(extensionsv1alpha1.Object)
		extensionobject.SetSpec(current, r.object)
		extensionobject.AddLabels(current, r.object.GetLabels())
		stamp(current, extensionsv1alpha1.OperationReconcile, now)
		// The resource version makes sure that the decision was made on the newest object.
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := extensions.seed.Patch(ctx, current, patch); err != nil {
			return flow.Outcome{}, fmt.Errorf("update %s %q: %w", kind, current.GetName(), err)
		}
		return waitingFor(current, " is being reconciled"), nil
	}
	reflect.ValueOf(r.object).Elem().Set(reflect.ValueOf(current).Elem()) // The caller reads the status.
	outcome, err := extensionOutcome(kind, current, now, r.severe)
	return outcome.UpTo(r.timeout), err
}

// triggerDue decides whether an existing object with the right spec needs a new request.
func triggerDue(o extensionsv1alpha1.Object, t trigger, task bool, started time.Time) bool {
	stamped, err := time.Parse(time.RFC3339Nano, o.GetAnnotations()[extensionsv1alpha1.AnnotationTimestamp])
	if err != nil {
		return true // Never requested, or by a client that does not follow the contract.
	}
	if !stamped.Before(started) {
		return false // Already requested in this operation.
	}
	op := o.GetDefaultStatus().LastOperation
	return t == triggerAlways || task || op == nil || op.State != corev1beta1.LastOperationStateSucceeded ||
		stamped.Truncate(time.Second).After(op.LastUpdateTime.Time)
}

// extensionOutcome is the ready test of the extension contract. The first rule that does not hold is the reason to
// wait; an error of the extension is passed on with its codes once it has lasted long enough.
func extensionOutcome(
	kind string, o extensionsv1alpha1.Object, now time.Time, severe time.Duration,
) (flow.Outcome, error) {
	name, status := o.GetName(), o.GetDefaultStatus()
	stamped, err := time.Parse(time.RFC3339Nano, o.GetAnnotations()[extensionsv1alpha1.AnnotationTimestamp])
	if err != nil {
		return waitingFor(o, " has no valid timestamp"), nil
	}
	stamped = stamped.Truncate(time.Second) // Status times have no fractions.
	if e := status.LastError; e != nil {
		err := flow.WithCodes(fmt.Errorf("%s %s: %s", kind, name, e.Description), codeStrings(e.Codes)...)
		if len(e.Codes) > 0 && now.Sub(stamped) >= severe {
			return flow.Outcome{}, err
		}
		return flow.WaitingWithCodes(flow.Kind(kind), err.Error(), codeStrings(e.Codes)...), nil
	}
	op := status.LastOperation
	switch {
	case op != nil && op.State == corev1beta1.LastOperationStateProcessing:
		return waitingFor(o, ": "+op.Description), nil
	case status.ObservedGeneration != o.GetGeneration():
		return waitingFor(o, " has not been observed by its extension yet"), nil
	case o.GetAnnotations()[extensionsv1alpha1.AnnotationOperation] != "":
		return waitingFor(o, " waits for its extension"), nil
	case op == nil:
		return waitingFor(o, " has not been reconciled yet"), nil
	case op.State != corev1beta1.LastOperationStateSucceeded:
		return waitingFor(o, fmt.Sprintf(" is %s: %s", op.State, op.Description)), nil
	case stamped.After(op.LastUpdateTime.Time):
		return waitingFor(o, " has not been reconciled since it was requested"), nil
	}
	return flow.Done(), nil
}

// delete asks for the deletion of the object and reports how far it is.
func (extensions *Extensions) delete(
	ctx context.Context, o extensionsv1alpha1.Object, severe time.Duration,
) (flow.Outcome, error) {
	kind := extensionobject.KindOf(o)
	found, err := kube.Exists(ctx, extensions.seed, o)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		return flow.Done(), nil
	}
	if o.GetDeletionTimestamp() == nil {
		before := o.DeepCopyObject().(extensionsv1alpha1.Object)
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[extensionsv1alpha1.AnnotationConfirmDeletion] = "true"
		annotations[extensionsv1alpha1.AnnotationTimestamp] = extensions.seed.clock.Now().UTC().Format(time.RFC3339Nano)
		o.SetAnnotations(annotations)
		if err := extensions.seed.Patch(ctx, o, client.MergeFrom(before)); err != nil {
			return flow.Outcome{}, fmt.Errorf("confirm deletion of %s %q: %w", kind, o.GetName(), err)
		}
		if err := client.IgnoreNotFound(extensions.seed.Delete(ctx, o)); err != nil {
			return flow.Outcome{}, fmt.Errorf("delete %s %q: %w", kind, o.GetName(), err)
		}
		return waitingFor(o, " is being deleted"), nil
	}
	if e := o.GetDefaultStatus().LastError; e != nil {
		err := flow.WithCodes(fmt.Errorf("delete %s %s: %s", kind, o.GetName(), e.Description), codeStrings(e.Codes)...)
		if len(e.Codes) > 0 && extensions.seed.clock.Now().Sub(o.GetDeletionTimestamp().Time) >= severe {
			return flow.Outcome{}, err
		}
		return flow.WaitingWithCodes(flow.Kind(kind), err.Error(), codeStrings(e.Codes)...), nil
	}
	return waitingFor(o, " is being deleted"), nil
}

// every calls f for all items and is done when it is done with each. Otherwise the last one that waits says for what.
func every[T any](
	ctx context.Context, items []T, f func(context.Context, T) (flow.Outcome, error),
) (flow.Outcome, error) {
	outcome := flow.Done()
	for _, item := range items {
		one, err := f(ctx, item)
		if err != nil {
			return flow.Outcome{}, err
		}
		if !one.IsDone() {
			outcome = one
		}
	}
	return outcome, nil
}

// stamp asks for an operation at a time.
func stamp(o extensionsv1alpha1.Object, operation string, now time.Time) {
	annotations := map[string]string{}
	for k, v := range o.GetAnnotations() {
		annotations[k] = v
	}
	annotations[extensionsv1alpha1.AnnotationOperation] = operation
	annotations[extensionsv1alpha1.AnnotationTimestamp] = now.UTC().Format(time.RFC3339Nano)
	o.SetAnnotations(annotations)
}

func codeStrings(codes []corev1beta1.ErrorCode) []string {
	out := make([]string, 0, len(codes))
	for _, c := range codes {
		out = append(out, string(c))
	}
	return out
}
