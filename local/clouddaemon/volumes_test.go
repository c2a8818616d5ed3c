package clouddaemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "hortus.dev/hortus/local/cloud"
)

func TestAttachedAndDetached(t *testing.T) {
	volumeIn := func(state api.State, instanceID string) volume {
		return volume{Volume: api.Volume{ID: "vol-1", Account: "a", Zone: "z", State: state, InstanceID: instanceID}}
	}
	here := instance{Instance: api.Instance{ID: "i-1", Account: "a", Zone: "z", State: api.StateRunning}}
	elsewhere, foreign, ending := here, here, here
	elsewhere.Zone, foreign.Account, ending.State = "y", "b", api.StateTerminating
	attach := func(i instance) func(volume) (volume, error) {
		return func(v volume) (volume, error) { return attached(v, i) }
	}
	detach := func(v volume) (volume, error) { return detached(v, "i-1") }
	for name, tc := range map[string]struct {
		before volume
		decide func(volume) (volume, error)
		want   volume
		code   api.Code
	}{
		"a free volume is attached": {
			volumeIn(api.StateAvailable, ""), attach(here), volumeIn(api.StateAttaching, "i-1"), "",
		},
		"again, nothing changes": {
			volumeIn(api.StateAttached, "i-1"), attach(here), volumeIn(api.StateAttached, "i-1"), "",
		},
		"no action while it is being attached": {
			volumeIn(api.StateAttaching, "i-1"), attach(here), volumeIn(api.StateAttaching, "i-1"), "",
		},
		"attached again while it is being detached": {
			volumeIn(api.StateDetaching, "i-1"), attach(here), volumeIn(api.StateAttaching, "i-1"), "",
		},
		"a volume of another instance": {
			volumeIn(api.StateAttached, "i-2"), attach(here), volume{}, api.CodeDependency,
		},
		"a volume that is detached from another instance": {
			volumeIn(api.StateDetaching, "i-2"), attach(here), volume{}, api.CodeDependency,
		},
		"a volume the instance was created with": {
			volumeIn(api.StateAvailable, "i-1"), attach(here), volume{}, api.CodeInvalid,
		},
		"a volume that is being deleted": {
			volumeIn(api.StateTerminating, ""), attach(here), volume{}, api.CodeNotFound,
		},
		"an instance of another zone": {
			volumeIn(api.StateAvailable, ""), attach(elsewhere), volume{}, api.CodeInvalid,
		},
		"an instance of another account": {
			volumeIn(api.StateAvailable, ""), attach(foreign), volume{}, api.CodeNotFound,
		},
		"an instance that is being deleted": {
			volumeIn(api.StateAvailable, ""), attach(ending), volume{}, api.CodeNotFound,
		},
		"no instance": {
			volumeIn(api.StateAvailable, ""), attach(instance{}), volume{}, api.CodeNotFound,
		},

		"an attached volume is detached": {
			volumeIn(api.StateAttached, "i-1"), detach, volumeIn(api.StateDetaching, "i-1"), "",
		},
		"a volume that is not attached yet is detached": {
			volumeIn(api.StateAttaching, "i-1"), detach, volumeIn(api.StateDetaching, "i-1"), "",
		},
		"no action while it is being detached": {
			volumeIn(api.StateDetaching, "i-1"), detach, volumeIn(api.StateDetaching, "i-1"), "",
		},
		"a free volume stays free": {
			volumeIn(api.StateAvailable, ""), detach, volumeIn(api.StateAvailable, ""), "",
		},
		"a volume that another instance has meanwhile stays": {
			volumeIn(api.StateAttached, "i-2"), detach, volumeIn(api.StateAttached, "i-2"), "",
		},
		"a volume the instance was created with stays": {
			volumeIn(api.StateAvailable, "i-1"), detach, volume{}, api.CodeInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.decide(tc.before)
			if code := api.CodeOf(err); code != tc.code {
				t.Fatalf("error %v, want code %q", err, tc.code)
			}
			if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
				t.Errorf("record mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
