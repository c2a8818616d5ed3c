package steps

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

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
	// severe is how long errors with codes are tolerated before the step fails, see [tolerance].
	severe time.Duration
	// timeout is how long all other waits may last before they are an error; 0 for the step's limit.
	timeout time.Duration
}

// reconcile creates or updates the object, requests an operation if it is due, and reports how far it is.
func (extensions *Extensions) reconcile(ctx context.Context, r extensionRequest) (flow.Outcome, error) {
	current := r.object.DeepCopyObject().(extensionsv1alpha1.Object)
	found, err := kube.Exists(ctx, extensions.seed, current)
	if err != nil {
		return flow.Outcome{}, err
	}
	if extensions.values.Restoring() && (!found || toRestore(current)) {
		return extensions.restore(ctx, r.object, current, found)
	}
	now := extensions.seed.clock.Now()
	request := extensionobject.Request{Operation: extensionsv1alpha1.OperationReconcile, At: now}
	if !found {
		request.Reason = "the object is new"
		return waitingFor(r.object, " is being created"), request.Create(ctx, extensions.seed, r.object)
	}
	if current.GetDeletionTimestamp() != nil {
		return waitingFor(current, " is being deleted before it can be created again"), nil
	}
	request.Reason = triggerDue(current, r.trigger, extensions.values.hasTask(r.task), extensions.values.Started)
	if extensionobject.SpecDiffers(current, r.object) {
		request.Reason = "its specification has changed"
	}
	if request.Reason != "" {
		return waitingFor(current, " is being reconciled"), request.Update(ctx, extensions.seed, current, r.object)
	}
	reflect.ValueOf(r.object).Elem().Set(reflect.ValueOf(current).Elem()) // The caller reads the status.
	outcome, err := extensionOutcome(extensionobject.KindOf(current), current, now, r.severe)
	return outcome.UpTo(r.timeout), err
}

// triggerDue returns why a new request of an existing object with the right spec is due; "" if none is.
func triggerDue(o extensionsv1alpha1.Object, t trigger, task bool, started time.Time) string {
	requested, ok := extensionobject.RequestedAt(o)
	op := o.GetDefaultStatus().LastOperation
	switch {
	case !ok: // Or by a client that does not follow the contract.
		return "nothing was requested of it yet"
	case !requested.Before(started):
		return "" // Already requested in this operation.
	case t == triggerAlways:
		return "the Shoot is being reconciled"
	case task:
		return "a task of the Shoot demands it"
	case op == nil || op.State != corev1beta1.LastOperationStateSucceeded:
		return "its last operation has not succeeded"
	case requested.Truncate(time.Second).After(op.LastUpdateTime.Time):
		return "its last request was not answered"
	}
	return ""
}

// extensionOutcome reports how far a request is. An error of the extension is passed on with its codes once it has
// lasted long enough.
func extensionOutcome(
	kind string, o extensionsv1alpha1.Object, now time.Time, severe time.Duration,
) (flow.Outcome, error) {
	at, requested := extensionobject.RequestedAt(o)
	if e := o.GetDefaultStatus().LastError; e != nil && requested {
		return toleratedError(kind, fmt.Errorf("%s %s: %s", kind, o.GetName(), e.Description), e.Codes, now.Sub(at), severe)
	}
	if reason := extensionobject.Unready(o); reason != "" {
		return waitingFor(o, reason), nil
	}
	return flow.Done(), nil
}

// toleratedError is a wait as long as the request is not older than the time for which errors with these codes are
// tolerated. Users read the error in the progress of the operation until then.
func toleratedError(
	kind string, err error, codes []corev1beta1.ErrorCode, requested, severe time.Duration,
) (flow.Outcome, error) {
	if requested >= tolerance(codes, severe) {
		return flow.Outcome{}, flow.WithCodes(err, codeStrings(codes)...)
	}
	return flow.WaitingWithCodes(flow.Kind(kind), err.Error(), codeStrings(codes)...), nil
}

// ofTheAccount are the codes of errors that only other credentials, more rights or a larger quota end.
var ofTheAccount = []corev1beta1.ErrorCode{
	corev1beta1.ErrorInfraUnauthenticated, corev1beta1.ErrorInfraUnauthorized, corev1beta1.ErrorInfraQuotaExceeded,
}

// uncodedTolerance is how long errors without a code are tolerated: an extension repeats by itself what may succeed.
const uncodedTolerance = 10 * time.Minute

// tolerance is how long errors with these codes are tolerated. What gets a long time, because providers may need it to
// complete their own changes, gets no longer than others to learn that the account may not do it. Some time is needed:
// an extension may try credentials that have been replaced, until its cache has the new ones.
func tolerance(codes []corev1beta1.ErrorCode, severe time.Duration) time.Duration {
	if len(codes) == 0 {
		return max(severe, uncodedTolerance)
	}
	if slices.ContainsFunc(codes, func(c corev1beta1.ErrorCode) bool { return slices.Contains(ofTheAccount, c) }) {
		return min(severe, severeDefault)
	}
	return severe
}

// delete requests the deletion of the object, once per operation, and reports how far it is. An extension whose Shoot
// has failed has stopped trying, and its last error says nothing about the present operation.
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
	now := extensions.seed.clock.Now()
	at, requested := extensionobject.RequestedAt(o)
	if o.GetDeletionTimestamp() == nil || !requested || at.Before(extensions.values.Started) {
		return waitingFor(o, " is being deleted"), extensionobject.RequestDeletion(ctx, extensions.seed, o, now)
	}
	if e := o.GetDefaultStatus().LastError; e != nil {
		return toleratedError(kind, fmt.Errorf("delete %s %s: %s", kind, o.GetName(), e.Description), e.Codes, now.Sub(at),
			severe)
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

func codeStrings(codes []corev1beta1.ErrorCode) []string {
	out := make([]string, 0, len(codes))
	for _, c := range codes {
		out = append(out, string(c))
	}
	return out
}
