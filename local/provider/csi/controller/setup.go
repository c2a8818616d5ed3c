package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SetupWithManager registers all controllers of the driver. cluster is a tag on all volumes, name the name of the
// process in events.
func SetupWithManager(mgr ctrl.Manager, api Volumes, cluster, name string) error {
	c, follow := mgr.GetClient(), &Events{Cloud: api}
	for _, one := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&Claims{
			Client: c, Reader: mgr.GetAPIReader(), Cloud: api, Cluster: cluster, Recorder: mgr.GetEventRecorder(name),
		},
		&PersistentVolumes{Client: c, Cloud: api, Events: follow},
		&Attachments{Client: c, Cloud: api, Clock: clock.RealClock{}, Events: follow},
	} {
		if err := one.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("set up %T: %w", one, err)
		}
	}
	return mgr.Add(follow)
}

// patch writes the changes since before, unless the object was changed by others in the meantime.
func patch(ctx context.Context, c client.Client, o, before client.Object) error {
	return c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// patchNewest is patch, and reports whether the object was the newest. One that was not has an event to come.
func patchNewest(ctx context.Context, c client.Client, o, before client.Object) (bool, error) {
	err := patch(ctx, c, o, before)
	return err == nil, ignoreStale(err)
}

// deleteNewest deletes an object, unless it was changed or deleted in the meantime.
func deleteNewest(ctx context.Context, c client.Client, o client.Object) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return ignoreStale(c.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// ignoreStale returns nil if err says that the object was changed or deleted in the meantime, and err otherwise.
func ignoreStale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
