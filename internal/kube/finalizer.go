package kube

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// EnsureFinalizer adds the finalizer unless it is present. The patch carries the resource version, because a merge
// patch of the list would otherwise remove finalizers that others have added meanwhile.
func EnsureFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	return patchFinalizers(ctx, c, obj, "add", finalizer, controllerutil.AddFinalizer)
}

// RemoveFinalizer removes the finalizer if it is present. An object that is gone is no error.
func RemoveFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	return client.IgnoreNotFound(patchFinalizers(ctx, c, obj, "remove", finalizer, controllerutil.RemoveFinalizer))
}

func patchFinalizers(
	ctx context.Context, c client.Client, obj client.Object, verb, finalizer string,
	change func(client.Object, string) bool,
) error {
	before := obj.DeepCopyObject().(client.Object)
	if !change(obj, finalizer) {
		return nil
	}
	// The main resource ignores the status in a patch; the response must not overwrite a status that the caller prepares.
	target := obj.DeepCopyObject().(client.Object)
	if err := c.Patch(ctx, target, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("%s finalizer %q of %s: %w", verb, finalizer, describe(obj, c.Scheme()), err)
	}
	log.FromContext(ctx).Info("Changed finalizers", "change", verb, "finalizer", finalizer,
		"object", describe(obj, c.Scheme()))
	obj.SetResourceVersion(target.GetResourceVersion())
	obj.SetFinalizers(target.GetFinalizers())
	return nil
}
