package extension

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ensureFinalizer adds the finalizer unless it is there. The patch carries the resource version, because a merge patch
// of the list would otherwise drop what others added meanwhile.
func ensureFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	return patchFinalizers(ctx, c, obj, "add", finalizer, controllerutil.AddFinalizer)
}

// confirmFinalizer changes the finalizer of an object that several share. It writes even if there is nothing to change,
// and returns errStale if the object was not the newest: a cache may have missed what this process has written for
// another object before.
func confirmFinalizer(
	ctx context.Context, c client.Client, obj client.Object, finalizer string,
	change func(client.Object, string) bool,
) error {
	target := obj.DeepCopyObject().(client.Object)
	changed := change(target, finalizer)
	err := c.Patch(ctx, target, client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return errStale
	case err != nil:
		return fmt.Errorf("change finalizer %q of %s: %w", finalizer, describe(c, obj), err)
	}
	if changed {
		log.FromContext(ctx).Info("Changed finalizers", "finalizer", finalizer, "object", describe(c, obj))
	}
	return nil
}

// removeFinalizer removes the finalizer if it is there; an object that has gone meanwhile is fine.
func removeFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
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
	// The main resource ignores status in a patch, so an answer must not undo a status that is being prepared.
	target := obj.DeepCopyObject().(client.Object)
	if err := c.Patch(ctx, target, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("%s finalizer %q of %s: %w", verb, finalizer, describe(c, obj), err)
	}
	log.FromContext(ctx).Info("Changed finalizers", "change", verb, "finalizer", finalizer, "object", describe(c, obj))
	obj.SetResourceVersion(target.GetResourceVersion())
	obj.SetFinalizers(target.GetFinalizers())
	return nil
}

// describe names an object for people: its kind, namespace and name.
func describe(c client.Client, obj client.Object) string {
	kind := fmt.Sprintf("%T", obj)
	if gvk, err := c.GroupVersionKindFor(obj); err == nil {
		kind = gvk.Kind
	}
	return kind + " " + client.ObjectKeyFromObject(obj).String()
}
