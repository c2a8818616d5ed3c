package kube

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// PatchStatus writes the status of obj as a merge patch against before, the copy taken when it was read. It sends
// nothing if nothing has changed. An object that is gone is no error.
func PatchStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	return patchStatus(ctx, c, obj, before, client.MergeFrom(before))
}

// PatchSharedStatus is PatchStatus for lists that others write, too, such as conditions: a merge patch replaces a list
// as a whole. It fails with a conflict if the object has changed since it was read; the newer object is then about to
// be reconciled.
func PatchSharedStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	return patchStatus(ctx, c, obj, before, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func patchStatus(ctx context.Context, c client.Client, obj, before client.Object, patch client.Patch) error {
	if equality.Semantic.DeepEqual(statusOf(obj), statusOf(before)) {
		return nil
	}
	// The copy keeps the caller's metadata and spec, which the response would replace.
	err := c.Status().Patch(ctx, obj.DeepCopyObject().(client.Object), patch)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of %s: %w", describe(obj, c.Scheme()), err)
	}
	LogConditions(ctx, c.Scheme(), obj, before)
	return nil
}

// LogConditions logs the conditions of an object that have become worse or better since before. Conditions that only
// change between True and Progressing are omitted.
func LogConditions(ctx context.Context, scheme *runtime.Scheme, obj, before client.Object) {
	old := conditionsOf(before)
	for _, c := range conditionsOf(obj) {
		was := corev1beta1.ConditionStatus("")
		if o := corev1beta1.FindCondition(old, c.Type); o != nil {
			was = o.Status
		}
		if c.Status != was && (bad(c.Status) || bad(was)) {
			log.FromContext(ctx).Info("Condition has changed", "object", describe(obj, scheme), "condition", c.Type,
				"status", c.Status, "before", was, "reason", c.Reason, "message", c.Message)
		}
	}
}

func bad(status corev1beta1.ConditionStatus) bool {
	return status == corev1beta1.ConditionFalse || status == corev1beta1.ConditionUnknown
}

// conditionsOf returns the conditions in the status; none if the kind has none.
func conditionsOf(obj client.Object) []corev1beta1.Condition {
	status := reflect.ValueOf(statusOf(obj))
	if status.Kind() != reflect.Struct {
		return nil
	}
	field := status.FieldByName("Conditions")
	if !field.IsValid() {
		return nil
	}
	conditions, _ := field.Interface().([]corev1beta1.Condition)
	return conditions
}

// statusOf returns the Status field of a typed object.
func statusOf(obj client.Object) any {
	return reflect.ValueOf(obj).Elem().FieldByName("Status").Interface()
}

// resetObject sets the object behind the pointer to its zero value.
func resetObject(obj client.Object) {
	v := reflect.ValueOf(obj).Elem()
	v.Set(reflect.Zero(v.Type()))
}
