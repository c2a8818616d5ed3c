package care

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestEventsOfConditions(t *testing.T) {
	condition := func(status corev1beta1.ConditionStatus, reason, message string) []corev1beta1.Condition {
		return []corev1beta1.Condition{{
			Type: corev1beta1.ShootControlPlaneHealthy, Status: status, Reason: reason, Message: message,
		}}
	}
	good, bad := condition("True", "ControlPlaneRunning", "fine"), condition("False", "BackupsBehind", "behind")
	expires := func(message string) []corev1beta1.Condition {
		return condition("True", reasonCertificateExpires, message)
	}
	warning := func(message string) []conditionEvent {
		return []conditionEvent{{"Warning", reasonCertificateExpires, "ControlPlaneHealthy: " + message}}
	}
	for name, tc := range map[string]struct {
		before, after []corev1beta1.Condition
		want          []conditionEvent
	}{
		"True for the first time": {nil, good, nil},
		"still well":              {good, good, nil},
		"False for the first time": {
			nil, bad, []conditionEvent{{"Warning", "BackupsBehind", "ControlPlaneHealthy: behind"}},
		},
		"bad": {
			good, bad, []conditionEvent{{"Warning", "BackupsBehind", "ControlPlaneHealthy: behind"}},
		},
		"bad after a while": {
			condition("Progressing", "BackupsBehind", "behind"), bad,
			[]conditionEvent{{"Warning", "BackupsBehind", "ControlPlaneHealthy: behind"}},
		},
		"still False, with another message": {bad, condition("False", "BackupsBehind", "more behind"), nil},
		"False for another reason": {
			bad, condition("False", "EtcdUnhealthy", "down"),
			[]conditionEvent{{"Warning", "EtcdUnhealthy", "ControlPlaneHealthy: down"}},
		},
		"well again": {
			bad, good, []conditionEvent{{"Normal", "ControlPlaneRunning", "ControlPlaneHealthy: fine"}},
		},
		"not certain":                  {good, condition("Progressing", "BackupsBehind", "behind"), nil},
		"unknown":                      {bad, condition("Unknown", "ConditionCheckError", "no answer"), nil},
		"True after Unknown":           {condition("Unknown", "ConditionCheckError", "no answer"), good, nil},
		"a condition that was removed": {bad, nil, nil},

		"a certificate expires":      {good, expires("in 9 days"), warning("in 9 days")},
		"it expires, the next day":   {expires("in 9 days"), expires("in 8 days"), warning("in 8 days")},
		"it expires, the same day":   {expires("in 9 days"), expires("in 9 days"), nil},
		"True again, but it expires": {bad, expires("in 9 days"), warning("in 9 days")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, eventsOf(tc.before, tc.after), cmp.AllowUnexported(conditionEvent{})); diff != "" {
				t.Errorf("events mismatch (-want +got):\n%s", diff)
			}
		})
	}
	long := eventsOf(nil, condition("False", "EtcdUnhealthy", strings.Repeat("é", maxEventNote)))
	if len(long) != 1 || len(long[0].note) > maxEventNote+len(" [...]") || !strings.HasSuffix(long[0].note, " [...]") {
		t.Errorf("events of a long message: %v", long)
	}
}
