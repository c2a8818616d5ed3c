package clouddaemon

import (
	"time"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/driver"
)

// action is the next action on an instance.
type action string

const (
	actionNothing  action = "nothing"   // A change of the driver or the record triggers the next decision.
	actionBoot     action = "boot"      // Start it.
	actionWait     action = "wait"      // Decide again at decision.At.
	actionRunning  action = "running"   // Note in the record that it runs.
	actionExited   action = "exited"    // Note in the record that it has ended.
	actionReboot   action = "reboot"    // Stop it once; the next decision boots it.
	actionTakeAway action = "take-away" // Stop it and cut it off: its hardware is lost.
	actionRemove   action = "remove"    // Remove it and everything that belongs to it.
)

// decision is an action and its reason, in words for the record.
type decision struct {
	Action action
	Reason string
	// At is the time of the next decision; zero means that only a change causes one.
	At time.Time
}

const (
	// steadyAfter is the minimum run time of an instance for its end to count as a reboot and not as part of a crash
	// loop.
	steadyAfter = time.Minute
	// maxBootPause bounds the pause between the boots of an instance that keeps exiting.
	maxBootPause = 30 * time.Second
)

// bootPause is the pause before the next boot after a number of exits in a row: none after the first, which is a
// reboot, then 1 s, 2 s, 4 s and so on.
func bootPause(exits int) time.Duration {
	if exits <= 1 {
		return 0
	}
	if exits > 6 {
		return maxBootPause
	}
	return min(time.Second<<(exits-2), maxBootPause)
}

// decide returns the next action on an instance from its record and the driver's observation.
func decide(i instance, seen driver.Observation, lost bool, lostUntil, now time.Time) decision {
	alive := seen.Phase == driver.Running || seen.Phase == driver.Starting
	switch {
	case i.State == api.StateTerminating:
		return decision{Action: actionRemove}
	case lost && (alive || i.State != api.StateLost):
		return decision{Action: actionTakeAway, Reason: "the hardware of the instance is lost", At: lostUntil}
	case lost:
		return decision{Action: actionNothing, At: lostUntil}
	case i.Reboot && alive:
		return decision{Action: actionReboot, Reason: "a reboot was requested"}
	case seen.Phase == driver.Running && (i.State != api.StateRunning || i.Reboot):
		return decision{Action: actionRunning}
	case alive:
		return decision{Action: actionNothing}
	case i.State == api.StateRunning || (i.State == api.StatePending && seen.Phase == driver.Exited):
		return decision{Action: actionExited, Reason: "the instance has exited and is going to be started again"}
	case i.State == api.StateStopped && now.Before(i.ExitedAt.Add(bootPause(i.Exits))):
		return decision{Action: actionWait, At: i.ExitedAt.Add(bootPause(i.Exits))}
	default:
		return decision{Action: actionBoot}
	}
}

// afterExit is the record of an instance that has just been seen to have ended.
func afterExit(i instance, reason string, now time.Time) instance {
	if i.Reboot || (!i.StartedAt.IsZero() && now.Sub(i.StartedAt) >= steadyAfter) {
		i.Exits = 0
	}
	i.Exits++
	i.ExitedAt = now.UTC()
	i.Reboot = false
	i.State, i.Message = api.StateStopped, reason
	return i
}
