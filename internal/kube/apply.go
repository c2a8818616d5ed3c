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

// Apply makes obj's fields so on the server, as owner, and stores the server's answer in obj. Fields that obj leaves
// empty belong to others. A conflict with another owner is taken over: the caller is the author of what it renders.
func Apply(ctx context.Context, c client.Client, obj client.Object, owner string) error {
	return apply(ctx, c, obj, client.FieldOwner(owner), client.ForceOwnership)
}

// ApplyUnlessOwned is Apply for objects of which somebody else may be the author: if a field that obj would change
// belongs to another owner, nothing changes, and the error is a conflict.
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
	// The answer has every field, so what obj said before must not shine through.
	gvk := obj.GetObjectKind().GroupVersionKind()
	resetObject(obj)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return fmt.Errorf("decode applied %s: %w", gvk.Kind, err)
	}
	return nil
}

// applyConfiguration turns obj into what server-side apply accepts: its kind set, no status, no managed fields and none
// of the zero values that Go's encoder writes for embedded structs.
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
	// A pod template repeats the metadata struct; a null creationTimestamp in it would be owned by us for nothing.
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	return u, nil
}

// Delete deletes obj in the background and reports whether it is gone already. An unknown kind counts as gone, since
// its objects went with the definition.
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

// Exists reads obj and reports whether it was there. An unknown kind has no objects.
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
