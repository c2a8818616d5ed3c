package kube

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus writes the status of obj as a merge patch against before, the copy taken when it was read. Nothing is sent
// when nothing changed, and an object that has gone meanwhile is fine.
func PatchStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	if equality.Semantic.DeepEqual(statusOf(obj), statusOf(before)) {
		return nil
	}
	// The copy keeps the caller's metadata and spec: the answer would replace them with the server's view.
	err := c.Status().Patch(ctx, obj.DeepCopyObject().(client.Object), client.MergeFrom(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of %s: %w", describe(obj, c.Scheme()), err)
	}
	return nil
}

// statusOf is the Status field of a typed object.
func statusOf(obj client.Object) any {
	return reflect.ValueOf(obj).Elem().FieldByName("Status").Interface()
}

// resetObject sets the object behind the pointer to its zero value.
func resetObject(obj client.Object) {
	v := reflect.ValueOf(obj).Elem()
	v.Set(reflect.Zero(v.Type()))
}
