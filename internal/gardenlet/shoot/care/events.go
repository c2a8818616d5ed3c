package care

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// maxEventNote bounds the text of an event; the API allows 1 KiB.
const maxEventNote = 1000

// conditionEvent is an event about a condition.
type conditionEvent struct{ kind, reason, note string }

// eventsOf are the events about conditions that have become False, that are False for another reason, or that are True
// again; and every day about a certificate that expires soon. There is none for what is only unknown, or not certain
// yet.
func eventsOf(before, after []corev1beta1.Condition) []conditionEvent {
	var events []conditionEvent
	for _, now := range after {
		was := corev1beta1.Condition{}
		if old := corev1beta1.FindCondition(before, now.Type); old != nil {
			was = *old
		}
		e := conditionEvent{
			kind: corev1.EventTypeWarning, reason: now.Reason, note: fmt.Sprintf("%s: %s", now.Type, now.Message),
		}
		switch {
		case now.Status == corev1beta1.ConditionFalse && (was.Status != now.Status || was.Reason != now.Reason):
		case now.Status == corev1beta1.ConditionTrue && was.Status == corev1beta1.ConditionFalse:
			e.kind = corev1.EventTypeNormal
			if now.Reason == reasonCertificateExpires {
				e.kind = corev1.EventTypeWarning
			}
		case now.Reason == reasonCertificateExpires && was.Message != now.Message:
		default:
			continue
		}
		if len(e.note) > maxEventNote {
			e.note = strings.ToValidUTF8(e.note[:maxEventNote], "") + " [...]"
		}
		events = append(events, e)
	}
	return events
}

// recordEvents records the events of a check. That a control plane which is being made or deleted is not healthy is no
// news.
func (r *Reconciler) recordEvents(ctx context.Context, before, after *corev1beta1.Shoot) {
	op := after.Status.LastOperation
	if op == nil || op.Type == corev1beta1.LastOperationTypeDelete ||
		op.Type == corev1beta1.LastOperationTypeCreate && op.State != corev1beta1.LastOperationStateSucceeded {
		return
	}
	for _, e := range eventsOf(before.Status.Conditions, after.Status.Conditions) {
		if e.reason == reasonCertificateExpires {
			log.FromContext(ctx).Info("A certificate of the control plane expires soon", "condition", e.note)
		}
		r.Events.Eventf(after, nil, e.kind, e.reason, "Check", "%s", e.note)
	}
}
