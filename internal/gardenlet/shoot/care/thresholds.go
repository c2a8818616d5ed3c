package care

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Finding is the result of the check for a condition.
type Finding struct {
	Status  corev1beta1.ConditionStatus
	Reason  string
	Message string
	Codes   []corev1beta1.ErrorCode
	// Patience is the minimum threshold of the condition for this finding.
	Patience time.Duration
}

func good(reason, message string) Finding {
	return Finding{Status: corev1beta1.ConditionTrue, Reason: reason, Message: message}
}

func bad(reason, message string, codes ...corev1beta1.ErrorCode) Finding {
	return Finding{Status: corev1beta1.ConditionFalse, Reason: reason, Message: message, Codes: codes}
}

func unknown(reason, message string) Finding {
	return Finding{Status: corev1beta1.ConditionUnknown, Reason: reason, Message: message}
}

// Operation is the part of a Shoot's status on which thresholds depend, besides the condition.
type Operation struct {
	Last      *corev1beta1.LastOperation
	HasErrors bool
}

// next turns a finding into the condition that follows the old one. A failing check makes a condition Progressing for
// the threshold before it becomes False; nil has no threshold.
func next(
	kind corev1beta1.ConditionType, old *corev1beta1.Condition, f Finding, threshold *time.Duration, op Operation,
	now time.Time,
) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: kind, Status: f.Status, Reason: f.Reason, Message: f.Message, Codes: f.Codes,
		LastTransitionTime: metav1.Time{Time: now}, LastUpdateTime: metav1.Time{Time: now},
	}
	if f.Status == corev1beta1.ConditionFalse {
		if f.Patience > 0 && (threshold == nil || *threshold < f.Patience) {
			threshold = &f.Patience
		}
		c.Status = failing(old, f, threshold, op, now)
		if c.Status == corev1beta1.ConditionFalse && pardoned(op) {
			c.Status = corev1beta1.ConditionProgressing
		}
	}
	return c
}

// failing is the status for a check that fails.
func failing(
	old *corev1beta1.Condition, f Finding, threshold *time.Duration, op Operation, now time.Time,
) corev1beta1.ConditionStatus {
	if f.Patience > 0 && (old == nil || old.Status == corev1beta1.ConditionUnknown) {
		return corev1beta1.ConditionProgressing
	}
	if threshold == nil || old == nil {
		return corev1beta1.ConditionFalse
	}
	justSucceeded := op.Last != nil && op.Last.State == corev1beta1.LastOperationStateSucceeded &&
		now.Sub(op.Last.LastUpdateTime.Time) < *threshold
	switch old.Status {
	case corev1beta1.ConditionTrue:
		return corev1beta1.ConditionProgressing
	case corev1beta1.ConditionProgressing:
		if now.Sub(old.LastTransitionTime.Time) <= *threshold || justSucceeded {
			return corev1beta1.ConditionProgressing
		}
	case corev1beta1.ConditionFalse:
		if justSucceeded || old.Reason != f.Reason {
			return corev1beta1.ConditionProgressing
		}
	}
	return corev1beta1.ConditionFalse
}

// pardoned: while a Shoot is being created, deleted or changed without an error, trouble is expected.
func pardoned(op Operation) bool {
	if op.Last == nil {
		return true
	}
	switch op.Last.Type {
	case corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationTypeDelete:
		if op.Last.State != corev1beta1.LastOperationStateSucceeded {
			return true
		}
	}
	return op.Last.State == corev1beta1.LastOperationStateProcessing && !op.HasErrors
}
