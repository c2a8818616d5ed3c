package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// EventTime is when an event has happened last, in whichever of its forms.
func EventTime(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	for _, t := range []time.Time{e.FirstTimestamp.Time, e.EventTime.Time} {
		if t.After(at) {
			at = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}
