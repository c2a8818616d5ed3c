package controller

import (
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// SetupWithManager registers all controllers of the driver. Cluster is a tag on all volumes, name that of the process in events.
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
