package extension

import (
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// OperationType returns the operation of an object: the one requested by annotation or deletion, else the one that has
// not succeeded yet, else Reconcile. It is a pure function of the object.
func OperationType(obj Object) corev1beta1.LastOperationType {
	annotation := obj.GetAnnotations()[extensionsv1alpha1.AnnotationOperation]
	last := obj.GetDefaultStatus().LastOperation
	unfinished := func(t corev1beta1.LastOperationType) bool {
		return last.Type == t && last.State != corev1beta1.LastOperationStateSucceeded
	}
	switch {
	case annotation == extensionsv1alpha1.OperationMigrate:
		return corev1beta1.LastOperationTypeMigrate
	case !obj.GetDeletionTimestamp().IsZero():
		return corev1beta1.LastOperationTypeDelete
	case annotation == extensionsv1alpha1.OperationRestore:
		return corev1beta1.LastOperationTypeRestore
	case last == nil || unfinished(corev1beta1.LastOperationTypeCreate):
		return corev1beta1.LastOperationTypeCreate
	case unfinished(corev1beta1.LastOperationTypeMigrate):
		return corev1beta1.LastOperationTypeMigrate
	case unfinished(corev1beta1.LastOperationTypeRestore):
		return corev1beta1.LastOperationTypeRestore
	default:
		return corev1beta1.LastOperationTypeReconcile
	}
}

// requested reports whether there is an operation to do: it was requested, or it has begun and has not succeeded.
// Changes of the spec alone request nothing, since the gardenlet decides when they take effect.
func requested(obj Object) bool {
	last := obj.GetDefaultStatus().LastOperation
	return operationAnnotation(obj) || !obj.GetDeletionTimestamp().IsZero() ||
		last == nil || last.State != corev1beta1.LastOperationStateSucceeded
}

func operationAnnotation(obj Object) bool {
	switch obj.GetAnnotations()[extensionsv1alpha1.AnnotationOperation] {
	case extensionsv1alpha1.OperationReconcile, extensionsv1alpha1.OperationMigrate, extensionsv1alpha1.OperationRestore:
		return true
	default:
		return false
	}
}

// waitsForState reports whether the extension must not act until the state has been written.
func waitsForState(obj Object) bool {
	return obj.GetAnnotations()[extensionsv1alpha1.AnnotationOperation] == extensionsv1alpha1.OperationWaitForState
}

// migrated reports whether the object has been migrated; then it is not reconciled until it is deleted or restored.
func migrated(obj Object) bool {
	last := obj.GetDefaultStatus().LastOperation
	return last != nil && last.Type == corev1beta1.LastOperationTypeMigrate &&
		last.State == corev1beta1.LastOperationStateSucceeded
}
