package maintenance

import (
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// blockedHorizon is how far ahead windows are compared with schedules: the longest that common ones repeat in, a month.
const blockedHorizon = 32 * day

// RotationBlocked reports whether a credentials rotation is overdue that needs the Shoot awake, but its hibernation
// schedules keep it hibernated in every upcoming maintenance window. It is false for Shoots without schedules: owners
// who hibernate a Shoot themselves also wake it up.
func RotationBlocked(shoot *corev1beta1.Shoot, now time.Time) bool {
	if shoot.Spec.Hibernation == nil || len(shoot.Spec.Hibernation.Schedules) == 0 {
		return false
	}
	overdue := false
	for _, r := range RotationsOf(shoot) {
		overdue = overdue || r.Awake && !r.Busy && r.Due(now)
	}
	if !overdue {
		return false
	}
	schedules, err := ParseSchedules(shoot.Spec.Hibernation.Schedules)
	return err == nil && !awakeInWindow(WindowOf(shoot), schedules, hibernating(shoot), now)
}

// awakeInWindow reports whether the schedules leave a Shoot awake at any moment of any window to come.
func awakeInWindow(w Window, schedules Schedules, asleep bool, now time.Time) bool {
	for at, end := now, now.Add(blockedHorizon); at.Before(end); {
		fire, ok := schedules.Next(at)
		if !ok {
			fire.At = end
		}
		if !asleep {
			// A window that began before the Shoot woke up counts, too.
			if begin, _ := w.Occurrence(at); begin.Before(fire.At) {
				return true
			}
		}
		at, asleep = fire.At, fire.Hibernate
	}
	return false
}
