package unit

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// RestartPolicy says after which ends a unit is started again.
type RestartPolicy string

const (
	RestartNo         RestartPolicy = "no"
	RestartAlways     RestartPolicy = "always"
	RestartOnSuccess  RestartPolicy = "on-success"
	RestartOnFailure  RestartPolicy = "on-failure"
	RestartOnAbnormal RestartPolicy = "on-abnormal" // Signals and timeouts, not exit codes.
)

const (
	// quickFailure is the run time below which an end counts as a failed start. Kubelet and containerd need about 3 s
	// to find out that they cannot run.
	quickFailure = 10 * time.Second
	// maxRestartDelay bounds the back-off, so that a machine whose cause of failure is gone recovers soon.
	maxRestartDelay = 30 * time.Second
)

func parseRestart(value string) (RestartPolicy, error) {
	switch policy := RestartPolicy(value); policy {
	case RestartNo, RestartAlways, RestartOnSuccess, RestartOnFailure, RestartOnAbnormal:
		return policy, nil
	case "on-abort", "on-watchdog":
		return RestartOnAbnormal, nil
	}
	return "", errors.New("not a restart policy")
}

// Exit is the end of a process, or of the attempt to run one.
type Exit struct {
	Code   int
	Signal syscall.Signal // 0 unless the process was ended by a signal.
	Err    error          // Set if no process was started, or if its start timed out.
}

// OK reports whether the end counts as a success: exit code 0 or one of the signals that request the end of a process.
func (e Exit) OK() bool {
	if e.Err != nil {
		return false
	}
	switch e.Signal {
	case 0:
		return e.Code == 0
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE:
		return true
	}
	return false
}

func (e Exit) String() string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Signal != 0:
		return fmt.Sprintf("ended by signal %d (%s)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// decideRestart says whether a unit that ended is started again, and after what delay. quick counts the ends in a row,
// this one included, that came within quickFailure: the delay doubles with each beyond the first.
func decideRestart(spec *Spec, exit Exit, quick int) (time.Duration, bool) {
	switch spec.Restart {
	case RestartAlways:
	case RestartOnSuccess:
		if !exit.OK() {
			return 0, false
		}
	case RestartOnFailure:
		if exit.OK() {
			return 0, false
		}
	case RestartOnAbnormal:
		if exit.OK() || exit.Signal == 0 && exit.Err == nil {
			return 0, false
		}
	default:
		return 0, false
	}
	delay := spec.RestartDelay
	for ; quick > 1 && delay < maxRestartDelay; quick-- {
		delay = min(max(2*delay, defaultRestartDelay), maxRestartDelay)
	}
	return delay, true
}
