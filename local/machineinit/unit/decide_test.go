package unit

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecideRestart(t *testing.T) {
	bad, good := Exit{Code: 1}, Exit{}
	killed, terminated := Exit{Signal: syscall.SIGKILL}, Exit{Signal: syscall.SIGTERM}
	noStart := Exit{Err: errors.New("no such program")}
	for name, tc := range map[string]struct {
		policy RestartPolicy
		exit   Exit
		quick  int
		delay  time.Duration // RestartSec.
		again  bool
		want   time.Duration
	}{
		"no: never": {policy: RestartNo, exit: bad, quick: 1},
		"always: after success": {
			policy: RestartAlways, exit: good, quick: 1, delay: time.Second, again: true, want: time.Second,
		},
		"always: after failure": {
			policy: RestartAlways, exit: bad, quick: 1, delay: time.Second, again: true, want: time.Second,
		},
		"always: after kill -9": {
			policy: RestartAlways, exit: killed, quick: 1, delay: time.Second, again: true, want: time.Second,
		},
		"on-failure: not after success":            {policy: RestartOnFailure, exit: good, quick: 1},
		"on-failure: not after a request to end":   {policy: RestartOnFailure, exit: terminated, quick: 1},
		"on-failure: after kill -9":                {policy: RestartOnFailure, exit: killed, quick: 1, again: true},
		"on-failure: when it could not be started": {policy: RestartOnFailure, exit: noStart, quick: 1, again: true},
		"on-success: after success":                {policy: RestartOnSuccess, exit: good, quick: 1, again: true},
		"on-success: not after failure":            {policy: RestartOnSuccess, exit: bad, quick: 1},
		"on-abnormal: not after an exit code":      {policy: RestartOnAbnormal, exit: bad, quick: 1},
		"on-abnormal: after a crash":               {policy: RestartOnAbnormal, exit: killed, quick: 1, again: true},
		"the delay doubles with quick ends": {
			policy: RestartAlways, exit: bad, quick: 3, delay: time.Second, again: true, want: 4 * time.Second,
		},
		"the delay is bounded": {
			policy: RestartAlways, exit: bad, quick: 50, delay: time.Second, again: true, want: maxRestartDelay,
		},
		"a long delay is kept": {
			policy: RestartAlways, exit: bad, quick: 50, delay: time.Hour, again: true, want: time.Hour,
		},
		"without a delay the default applies": {
			policy: RestartAlways, exit: bad, quick: 2, again: true, want: defaultRestartDelay,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, again := decideRestart(&Spec{Restart: tc.policy, RestartDelay: tc.delay}, tc.exit, tc.quick)
			if again != tc.again || got != tc.want {
				t.Errorf("decideRestart = %s, %t; want %s, %t", got, again, tc.want, tc.again)
			}
		})
	}
}

func TestWaits(t *testing.T) {
	spec := func(name string, after ...string) *Spec { return &Spec{Name: name, After: after} }
	for name, tc := range map[string]struct {
		specs []*Spec
		want  map[string][]string
	}{
		"units wait for those they come after":       {[]*Spec{spec("a", "b"), spec("b")}, map[string][]string{"a": {"b"}}},
		"units that are not started are not awaited": {[]*Spec{spec("a", "network.target")}, map[string][]string{}},
		"a unit does not wait for itself":            {[]*Spec{spec("a", "a")}, map[string][]string{}},
		"a repeated unit is awaited once": {
			[]*Spec{spec("a", "b", "b"), spec("b")}, map[string][]string{"a": {"b"}},
		},
		"a cycle is cut at its end": {
			[]*Spec{spec("c", "a"), spec("b", "c"), spec("a", "b")}, map[string][]string{"a": {"b"}, "b": {"c"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, waits(tc.specs)); diff != "" {
				t.Errorf("waits mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
