package maintenance

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestDecideReconcile(t *testing.T) {
	const none = time.Duration(-1)
	inside, outside := at(22, 10), at(12, 0)
	confine := func(s *corev1beta1.Shoot) { s.Spec.Maintenance.ConfineSpecUpdateRollout = ptr(true) }
	last := func(state corev1beta1.LastOperationState, when time.Time) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) {
			s.Status.LastOperation.State, s.Status.LastOperation.LastUpdateTime = state, metav1.NewTime(when)
		}
	}
	half := func(string, time.Time) float64 { return 0.5 }
	for name, tc := range map[string]struct {
		change  []func(*corev1beta1.Shoot)
		request func(*ReconcileRequest)
		now     time.Time
		want    bool
		start   time.Duration // Delay after a start.
		next    time.Duration // Wait after a success.
	}{
		"at any time": {now: outside, want: true, next: time.Hour},
		"an emergency stop": {
			request: func(r *ReconcileRequest) { r.EmergencyStop = true }, now: outside, start: 10*time.Hour + 22*time.Minute +
				30*time.Second, next: time.Hour},
		"failed by this version": {
			change: []func(*corev1beta1.Shoot){last("Failed", outside)}, now: outside, next: 24 * time.Hour},
		"failed, soon tried again": {
			change: []func(*corev1beta1.Shoot){last("Failed", outside.Add(time.Minute-retryFailedAfter))},
			now:    outside, next: time.Minute},
		"failed long ago": {
			change: []func(*corev1beta1.Shoot){last("Failed", outside.Add(-retryFailedAfter))}, now: outside, want: true,
			next: time.Hour},
		"failed long ago, ignored": {
			change: []func(*corev1beta1.Shoot){
				last("Failed", outside.Add(-retryFailedAfter)), annotated("shoot.gardener.cloud/ignore", "true")},
			request: func(r *ReconcileRequest) { r.Options.RespectSyncPeriodOverwrite = true }, now: outside, next: none},
		"a failed deletion is not retried": {
			change:  []func(*corev1beta1.Shoot){last("Failed", outside.Add(-retryFailedAfter))},
			request: func(r *ReconcileRequest) { r.Operation = "Delete" }, now: outside, next: none},
		"failed by an older version": {
			change: []func(*corev1beta1.Shoot){last("Failed", outside)}, request: func(r *ReconcileRequest) { r.Version = "v2" },
			now: outside, want: true, next: time.Hour},
		"ignored without permission": {
			change: []func(*corev1beta1.Shoot){annotated("shoot.gardener.cloud/ignore", "true")}, now: outside, want: true,
			next: time.Hour},
		"ignored": {
			change:  []func(*corev1beta1.Shoot){annotated("shoot.gardener.cloud/ignore", "true")},
			request: func(r *ReconcileRequest) { r.Options.RespectSyncPeriodOverwrite = true }, now: outside, next: none},
		"another operation ignores the window": {
			change: []func(*corev1beta1.Shoot){confine}, request: func(r *ReconcileRequest) { r.Operation = "Delete" },
			now: outside, want: true, next: 10*time.Hour + 22*time.Minute + 30*time.Second},
		"a changed Shoot does, too": {
			change: []func(*corev1beta1.Shoot){confine, func(s *corev1beta1.Shoot) { s.Generation++ }}, now: outside, want: true,
			next: 10*time.Hour + 22*time.Minute + 30*time.Second},
		"an error is retried": {
			change: []func(*corev1beta1.Shoot){confine, last("Error", outside)}, now: outside, want: true, next: 10*time.Hour +
				22*time.Minute + 30*time.Second},
		"confined, outside the window": {
			change: []func(*corev1beta1.Shoot){confine}, now: outside, start: 10*time.Hour + 22*time.Minute + 30*time.Second,
			next: 10*time.Hour + 22*time.Minute + 30*time.Second},
		"confined, inside the window": {
			change: []func(*corev1beta1.Shoot){confine}, now: inside, want: true, start: 17*time.Minute + 30*time.Second,
			next: 24*time.Hour + 12*time.Minute + 30*time.Second},
		"confined, already reconciled": {
			change: []func(*corev1beta1.Shoot){confine, last("Succeeded", at(22, 5))}, now: inside, start: 24*time.Hour +
				12*time.Minute + 30*time.Second, next: 24*time.Hour + 12*time.Minute + 30*time.Second},
		"confined, reconciled yesterday": {
			change: []func(*corev1beta1.Shoot){confine, last("Succeeded", at(22-24, 5))}, now: inside, want: true,
			start: 17*time.Minute + 30*time.Second, next: 24*time.Hour + 12*time.Minute + 30*time.Second},
		"the operator confines all reconciliations": {
			request: func(r *ReconcileRequest) { r.Options.InMaintenanceOnly = true }, now: outside, start: 10*time.Hour +
				22*time.Minute + 30*time.Second, next: 10*time.Hour + 22*time.Minute + 30*time.Second},
		"a longer period": {
			change:  []func(*corev1beta1.Shoot){annotated("shoot.gardener.cloud/sync-period", "3h")},
			request: func(r *ReconcileRequest) { r.Options.RespectSyncPeriodOverwrite = true }, now: outside, want: true,
			next: 3 * time.Hour},
		"a shorter period has no effect": {
			change:  []func(*corev1beta1.Shoot){annotated("shoot.gardener.cloud/sync-period", "3m")},
			request: func(r *ReconcileRequest) { r.Options.RespectSyncPeriodOverwrite = true }, now: outside, want: true,
			next: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := shoot(last("Succeeded", outside.AddDate(0, 0, -3)))
			s.Spec.Maintenance.TimeWindow = &corev1beta1.MaintenanceTimeWindow{Begin: "220000+0000", End: "230000+0000"}
			s.Status.Gardener.Version = "v1"
			for _, c := range tc.change {
				c(s)
			}
			r := ReconcileRequest{
				Shoot: s, Operation: corev1beta1.LastOperationTypeReconcile, Version: "v1",
				Options: ReconcileOptions{SyncPeriod: time.Hour},
			}
			if tc.request != nil {
				tc.request(&r)
			}
			if d := DecideReconcile(r, tc.now); d.Now != tc.want {
				t.Errorf("DecideReconcile() = %+v, want now = %v", d, tc.want)
			}
			if got := StartDelay(r, tc.now, half); got != tc.start {
				t.Errorf("StartDelay() = %s, want %s", got, tc.start)
			}
			next, ok := NextReconcile(r, tc.now, half)
			if !ok {
				next = none
			}
			if next != tc.next {
				t.Errorf("NextReconcile() = %s, want %s", next, tc.next)
			}
		})
	}
}
