package seed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestJudgeBuckets(t *testing.T) {
	bucket := func(name string, state corev1beta1.LastOperationState, problem string) corev1beta1.BackupBucket {
		b := corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if state != "" {
			b.Status.LastOperation = &corev1beta1.LastOperation{State: state}
		}
		if problem != "" {
			b.Status.LastError = &corev1beta1.LastError{Description: problem}
		}
		return b
	}
	ready := bucket("ready", corev1beta1.LastOperationStateSucceeded, "")
	for name, tc := range map[string]struct {
		buckets         []corev1beta1.BackupBucket
		status, message string
	}{
		"none yet": {nil, "Unknown", "The backup bucket has not been created yet."},
		"ready":    {[]corev1beta1.BackupBucket{ready}, "True", "All backup buckets are available."},
		"new": {
			[]corev1beta1.BackupBucket{ready, bucket("new", "", "")}, "Progressing", "Backup buckets are being worked on: new",
		},
		"working": {[]corev1beta1.BackupBucket{
			bucket("w", corev1beta1.LastOperationStateProcessing, ""),
		}, "Progressing", "Backup buckets are being worked on: w"},
		"an error precedes operations in progress": {[]corev1beta1.BackupBucket{
			bucket("new", "", ""), bucket("bad", corev1beta1.LastOperationStateError, "no access"),
		}, "False", "Backup buckets have errors: bad: no access"},
		"an error of an earlier operation": {[]corev1beta1.BackupBucket{
			bucket("b", corev1beta1.LastOperationStateProcessing, "x"), bucket("a", corev1beta1.LastOperationStateError, "y"),
		}, "False", "Backup buckets have errors: a: y; b: x"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, message := judgeBuckets(tc.buckets)
			if diff := cmp.Diff([]string{tc.status, tc.message}, []string{string(status), message}); diff != "" {
				t.Errorf("judgeBuckets() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUntilShootsUnknown(t *testing.T) {
	since := func(ago time.Duration, status corev1beta1.ConditionStatus) []corev1beta1.Condition {
		return []corev1beta1.Condition{{
			Type: conditionGardenletReady, Status: status, LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
		}}
	}
	for name, tc := range map[string]struct {
		conditions []corev1beta1.Condition
		want       time.Duration
	}{
		"just lost":        {since(0, corev1beta1.ConditionUnknown), 5 * time.Minute},
		"lost for a while": {since(4*time.Minute, corev1beta1.ConditionUnknown), time.Minute},
		"lost for long":    {since(6*time.Minute, corev1beta1.ConditionUnknown), -time.Minute},
		"not lost":         {since(time.Hour, corev1beta1.ConditionTrue), 5 * time.Minute},
	} {
		if got := untilShootsUnknown(tc.conditions, noon); got != tc.want {
			t.Errorf("%s: untilShootsUnknown() = %v, want %v", name, got, tc.want)
		}
	}
}

func TestUnknownAll(t *testing.T) {
	earlier := metav1.NewTime(noon.Add(-time.Hour))
	conditions := []corev1beta1.Condition{
		{Type: "A", Status: corev1beta1.ConditionTrue, LastTransitionTime: earlier, LastUpdateTime: earlier,
			Codes: []corev1beta1.ErrorCode{"X"}},
		{Type: "B", Status: corev1beta1.ConditionUnknown, Reason: "own", LastTransitionTime: earlier,
			LastUpdateTime: earlier},
	}
	got := unknownAll(conditions, noon)
	if got[0].Status != corev1beta1.ConditionUnknown || got[0].Reason != reasonStatusUnknown ||
		!got[0].LastTransitionTime.Time.Equal(noon) || len(got[0].Codes) != 0 {
		t.Errorf("condition A = %+v", got[0])
	}
	if diff := cmp.Diff(conditions[1], got[1]); diff != "" {
		t.Errorf("condition B changed:\n%s", diff)
	}
	if conditions[0].Status != corev1beta1.ConditionTrue {
		t.Error("the argument was changed")
	}
	if allUnknown(conditions) || !allUnknown(got) || !allUnknown(nil) {
		t.Error("allUnknown() is wrong")
	}
}
