package extensionobject

import (
	"fmt"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// State of a request.
type State string

// States of a request. A request with RetryAt is repeated by the next Ensure, Migrate or Delete after that time.
const (
	Waiting State = "Waiting"
	Failed  State = "Failed"
	Done    State = "Done"
)

// Progress is the progress of a request.
type Progress struct {
	State State
	// Reason for waiting, or for the failure. Empty when done.
	Reason string
	// Codes of the failure.
	Codes []corev1beta1.ErrorCode
	// RetryAt is the time from which a request is repeated that has failed, or whose success is older than it; zero for
	// others.
	RetryAt time.Time
}

func waiting(format string, args ...any) Progress {
	return Progress{State: Waiting, Reason: fmt.Sprintf(format, args...)}
}

const (
	// minRetry is the first pause between requests of something that fails; the extension itself retries sooner.
	minRetry = 30 * time.Second
	// maxRetry bounds the pauses, which double until then.
	maxRetry = 10 * time.Minute
)

// retryAt is when something is requested again that was requested at one time and has been failing since another. The
// pauses grow with the time it has been failing: 30 s, 30 s, 1 min, 2 min and so on.
func retryAt(requested, failingSince time.Time) time.Time {
	pause := minRetry
	if !failingSince.IsZero() {
		pause = min(max(requested.Sub(failingSince), minRetry), maxRetry)
	}
	return requested.Add(pause)
}

// RequestedAt is the time of the last request; ok is false if there was no request.
func RequestedAt(o extensionsv1alpha1.Object) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339Nano, o.GetAnnotations()[extensionsv1alpha1.AnnotationTimestamp])
	return at, err == nil
}

// requested is the operation that the extension has not taken up, or not ended, yet; "" if there is none.
func requested(o extensionsv1alpha1.Object) string {
	return o.GetAnnotations()[extensionsv1alpha1.AnnotationOperation]
}

func pending(o extensionsv1alpha1.Object) bool { return requested(o) != "" }

// failure returns the failure that the extension reports, nil if there is none.
func failure(kind string, o extensionsv1alpha1.Object, failingSince time.Time) *Progress {
	status := o.GetDefaultStatus()
	op := status.LastOperation
	broken := op != nil && (op.State == corev1beta1.LastOperationStateError ||
		op.State == corev1beta1.LastOperationStateFailed ||
		op.State == corev1beta1.LastOperationStateAborted)
	if status.LastError == nil && !broken {
		return nil
	}
	p := &Progress{State: Failed}
	if status.LastError != nil {
		p.Reason, p.Codes = status.LastError.Description, status.LastError.Codes
	} else {
		p.Reason = fmt.Sprintf("%s %s is %s: %s", kind, o.GetName(), op.State, op.Description)
	}
	if at, ok := RequestedAt(o); ok {
		p.RetryAt = retryAt(at, failingSince)
	}
	return p
}

// observe is the ready test of the contract. The first rule that does not hold is the reason to wait.
func observe(kind string, o extensionsv1alpha1.Object, failingSince time.Time) Progress {
	at, ok := RequestedAt(o)
	earlier := pending(o) && requested(o) != extensionsv1alpha1.OperationRestore // That is what the status reports on.
	if failed := failure(kind, o, failingSince); failed != nil && ok && !earlier {
		return *failed
	}
	reason := Unready(o)
	if reason == "" {
		return Progress{State: Done}
	}
	p := waiting("%s %s%s", kind, o.GetName(), reason)
	if reason == unanswered {
		p.RetryAt = retryAt(at, failingSince)
	}
	return p
}

// unanswered is the reason of an object whose last success is older than the request.
const unanswered = " has not been reconciled since it was requested"

// Unready returns the first rule of the ready test that does not hold, as the continuation of the object's name; "" if
// the object is ready. Errors that the extension reports are not part of it.
func Unready(o extensionsv1alpha1.Object) string {
	status := o.GetDefaultStatus()
	at, ok := RequestedAt(o)
	switch op := status.LastOperation; {
	case !ok:
		return " has no valid timestamp"
	case op != nil && op.State == corev1beta1.LastOperationStateProcessing:
		return ": " + op.Description
	case status.ObservedGeneration != o.GetGeneration():
		return " has not been observed by its extension yet"
	case pending(o):
		return " waits for its extension"
	case op == nil:
		return " has not been reconciled yet"
	case op.State != corev1beta1.LastOperationStateSucceeded:
		return fmt.Sprintf(" is %s: %s", op.State, op.Description)
	case olderThan(o, at):
		return unanswered
	}
	return ""
}

// olderThan reports whether the last operation ended before a request. Status times have no fractions. If the request
// has been removed, the clock of the extension is behind, or the extension has not reported the beginning yet.
func olderThan(o extensionsv1alpha1.Object, at time.Time) bool {
	op := o.GetDefaultStatus().LastOperation
	return op != nil && at.Truncate(time.Second).After(op.LastUpdateTime.Time)
}
