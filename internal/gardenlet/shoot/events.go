package shoot

import (
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// recordEvent reports important changes of an operation to users: its beginning, its end and its errors.
func (r *Reconciler) recordEvent(before, after *corev1beta1.Shoot) {
	reason, warning := eventFor(before.Status.LastOperation, after.Status.LastOperation)
	if reason == "" {
		return
	}
	kind, action := corev1.EventTypeNormal, "Reconcile"
	if warning {
		kind = corev1.EventTypeWarning
	}
	switch after.Status.LastOperation.Type {
	case corev1beta1.LastOperationTypeDelete:
		action = "Delete"
	case corev1beta1.LastOperationTypeMigrate:
		action = "Migrate"
	}
	r.Events.Eventf(after, nil, kind, reason, action, "%s", after.Status.LastOperation.Description)
}

func eventFor(before, after *corev1beta1.LastOperation) (reason string, warning bool) {
	if after == nil || (before != nil && before.State == after.State && before.Type == after.Type) {
		return "", false
	}
	pick := func(reconcile, delete, migrate string) string {
		switch after.Type {
		case corev1beta1.LastOperationTypeDelete:
			return delete
		case corev1beta1.LastOperationTypeMigrate:
			return migrate
		}
		return reconcile
	}
	switch after.State {
	case corev1beta1.LastOperationStateProcessing:
		if before != nil && before.State == corev1beta1.LastOperationStateError && before.Type == after.Type {
			return "", false // A retry.
		}
		return pick(corev1beta1.EventReconciling, corev1beta1.EventDeleting, corev1beta1.EventPrepareMigration), false
	case corev1beta1.LastOperationStateSucceeded:
		return pick(corev1beta1.EventReconciled, corev1beta1.EventDeleted, corev1beta1.EventMigrationPrepared), false
	case corev1beta1.LastOperationStateError, corev1beta1.LastOperationStateFailed:
		return pick(corev1beta1.EventReconcileError, corev1beta1.EventDeleteError,
			corev1beta1.EventMigrationPreparationFailed), true
	}
	return "", false
}
