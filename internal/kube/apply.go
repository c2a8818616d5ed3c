package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Apply applies obj's fields with server-side apply, as field manager owner, and stores the response in obj. Fields
// that are empty in obj belong to others. It forces conflicts: the caller is the author of the objects it renders.
func Apply(ctx context.Context, c client.Client, obj client.Object, owner string) error {
	return apply(ctx, c, obj, client.FieldOwner(owner), client.ForceOwnership)
}

// ApplyUnlessOwned is Apply for objects that may have another author: if a field that obj would change belongs to
// another field manager, nothing is changed, and the error is a conflict.
func ApplyUnlessOwned(ctx context.Context, c client.Client, obj client.Object, owner string) error {
	return apply(ctx, c, obj, client.FieldOwner(owner))
}

func apply(ctx context.Context, c client.Client, obj client.Object, opts ...client.ApplyOption) error {
	u, err := applyConfiguration(obj, c.Scheme())
	if err != nil {
		return fmt.Errorf("apply %s: %w", describe(obj, c.Scheme()), err)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), opts...); err != nil {
		return fmt.Errorf("apply %s: %w", describe(obj, c.Scheme()), err)
	}
	if out, ok := obj.(*unstructured.Unstructured); ok {
		out.Object = u.Object
		return nil
	}
	// The response has all fields, so no earlier content of obj may remain.
	gvk := obj.GetObjectKind().GroupVersionKind()
	resetObject(obj)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return fmt.Errorf("decode applied %s: %w", gvk.Kind, err)
	}
	return nil
}

// applyConfiguration converts obj for server-side apply: with its kind set, and without status, managed fields and the
// zero values that Go's encoder writes for embedded structs.
func applyConfiguration(obj client.Object, scheme *runtime.Scheme) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return nil, err
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: m}
	u.SetGroupVersionKind(gvk)
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetUID("")
	u.SetGeneration(0)
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	// A pod template contains the metadata struct again; we would own a null creationTimestamp in it for no purpose.
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	return u, nil
}

// Delete deletes obj with background propagation and reports whether it is already gone. An unknown kind counts as
// gone: its objects were deleted with the CustomResourceDefinition.
func Delete(
	ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption,
) (gone bool, err error) {
	if len(opts) == 0 {
		opts = []client.DeleteOption{client.PropagationPolicy("Background")}
	}
	err = c.Delete(ctx, obj, opts...)
	if client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err) {
		return err != nil, nil
	}
	return false, fmt.Errorf("delete %s: %w", describe(obj, c.Scheme()), err)
}

// Exists reads obj and reports whether it exists. An unknown kind has no objects.
func Exists(ctx context.Context, c client.Reader, obj client.Object) (bool, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if err == nil {
		return true, nil
	}
	if client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err) {
		return false, nil
	}
	return false, fmt.Errorf("read %s: %w", client.ObjectKeyFromObject(obj), err)
}

// describe names an object for an error: its kind, namespace and name.
func describe(obj client.Object, scheme *runtime.Scheme) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if gvk, err := apiutil.GVKForObject(obj, scheme); err == nil {
		kind = gvk.Kind
	}
	return fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj))
}
