package clouddaemon

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/driver"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func inState(state api.State, change ...func(*instance)) instance {
	i := instance{Instance: api.Instance{ID: "i-1", State: state}}
	for _, c := range change {
		c(&i)
	}
	return i
}

func exited(times int, ago time.Duration) func(*instance) {
	return func(i *instance) { i.Exits, i.ExitedAt = times, noon.Add(-ago) }
}

func reboot(i *instance) { i.Reboot = true }

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		record instance
		seen   driver.Phase
		lost   bool
		want   action
		at     time.Time
	}{
		"a new instance is booted": {
			record: inState(api.StatePending), seen: driver.Absent, want: actionBoot,
		},
		"a booting instance needs no action": {
			record: inState(api.StatePending), seen: driver.Starting, want: actionNothing,
		},
		"a booted instance is recorded": {
			record: inState(api.StatePending), seen: driver.Running, want: actionRunning,
		},
		"a running instance needs no action": {
			record: inState(api.StateRunning), seen: driver.Running, want: actionNothing,
		},
		"an exit is recorded first": {
			record: inState(api.StateRunning), seen: driver.Exited, want: actionExited,
		},
		"an instance lost with the host's reboot is recorded, too": {
			record: inState(api.StateRunning), seen: driver.Absent, want: actionExited,
		},
		"an exit before it was seen running counts": {
			record: inState(api.StatePending), seen: driver.Exited, want: actionExited,
		},
		"it boots at once after the first exit": {
			record: inState(api.StateStopped, exited(1, 0)), seen: driver.Exited, want: actionBoot,
		},
		"it waits a second after the second exit": {
			record: inState(api.StateStopped, exited(2, 0)), seen: driver.Exited, want: actionWait, at: noon.Add(time.Second),
		},
		"it boots after the pause": {
			record: inState(api.StateStopped, exited(2, time.Second)), seen: driver.Exited, want: actionBoot,
		},
		"a reboot stops a running instance": {
			record: inState(api.StateRunning, reboot), seen: driver.Running, want: actionReboot,
		},
		"a reboot of an exited instance is a boot": {
			record: inState(api.StateRunning, reboot), seen: driver.Exited, want: actionExited,
		},
		"deletion beats everything": {
			record: inState(api.StateTerminating, reboot), seen: driver.Running, lost: true, want: actionRemove,
		},
		"lost hardware stops": {
			record: inState(api.StateRunning), seen: driver.Running, lost: true, want: actionTakeAway,
		},
		"a new instance on lost hardware does not boot": {
			record: inState(api.StatePending), seen: driver.Absent, lost: true, want: actionTakeAway,
		},
		"lost hardware stays lost": {
			record: inState(api.StateLost), seen: driver.Exited, lost: true, want: actionNothing,
		},
		"found hardware boots": {
			record: inState(api.StateLost), seen: driver.Exited, want: actionBoot,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tc.record, driver.Observation{Phase: tc.seen}, tc.lost, time.Time{}, noon)
			if d.Action != tc.want || !d.At.Equal(tc.at) {
				t.Errorf("decide() = %+v, want %s at %s", d, tc.want, tc.at)
			}
		})
	}
}

func TestBootPausesGrow(t *testing.T) {
	var got []time.Duration
	for exits := range 10 {
		got = append(got, bootPause(exits))
	}
	s := time.Second
	want := []time.Duration{0, 0, 1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pauses mismatch (-want +got):\n%s", diff)
	}
}

func TestExitsInARowAreCounted(t *testing.T) {
	crashed := inState(api.StateRunning, func(i *instance) { i.Exits, i.StartedAt = 3, noon.Add(-time.Second) })
	if got := afterExit(crashed, "", noon).Exits; got != 4 {
		t.Errorf("exits after another crash = %d, want 4", got)
	}
	steady := inState(api.StateRunning, func(i *instance) { i.Exits, i.StartedAt = 3, noon.Add(-time.Hour) })
	if got := afterExit(steady, "", noon).Exits; got != 1 {
		t.Errorf("exits after an hour = %d, want 1", got)
	}
	asked := inState(api.StateRunning, reboot, func(i *instance) { i.Exits, i.StartedAt = 3, noon.Add(-time.Second) })
	if got := afterExit(asked, "", noon); got.Exits != 1 || got.Reboot {
		t.Errorf("after a reboot = %+v, want one exit and no request left", got)
	}
}
