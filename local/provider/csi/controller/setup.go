package controller

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SetupWithManager registers all controllers of the driver. cluster is a tag on all volumes, name the name of the
// process in events.
func SetupWithManager(mgr ctrl.Manager, api Volumes, cluster, name string) error {
	c, follow := mgr.GetClient(), &Events{Cloud: api}
	for _, one := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&Claims{Client: c, Cloud: api, Cluster: cluster, Recorder: mgr.GetEventRecorder(name)},
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
