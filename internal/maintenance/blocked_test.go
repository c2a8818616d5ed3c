package maintenance

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestRotationBlocked(t *testing.T) {
	now := time.Date(2026, 1, 14, 12, 0, 0, 0, time.UTC) // A Wednesday.
	nights := corev1beta1.HibernationSchedule{Start: ptr("0 20 * * *"), End: ptr("0 6 * * *")}
	for name, tc := range map[string]struct {
		schedules []corev1beta1.HibernationSchedule
		window    [2]string
		change    func(*corev1beta1.Shoot)
		want      bool
	}{
		"every window is at night": {
			schedules: []corev1beta1.HibernationSchedule{nights}, window: [2]string{"220000+0000", "230000+0000"}, want: true,
		},
		"the same across midnight": {
			schedules: []corev1beta1.HibernationSchedule{nights}, window: [2]string{"233000+0000", "003000+0000"}, want: true,
		},
		"asleep now": {
			schedules: []corev1beta1.HibernationSchedule{nights}, window: [2]string{"220000+0000", "230000+0000"},
			change: func(s *corev1beta1.Shoot) { s.Spec.Hibernation.Enabled = ptr(true) }, want: true,
		},
		"the window is by day": {
			schedules: []corev1beta1.HibernationSchedule{nights}, window: [2]string{"100000+0000", "110000+0000"},
		},
		"the window begins before the night": {
			schedules: []corev1beta1.HibernationSchedule{nights}, window: [2]string{"193000+0000", "210000+0000"},
		},
		"the window ends after waking up": {
			schedules: []corev1beta1.HibernationSchedule{nights}, window: [2]string{"050000+0000", "070000+0000"},
		},
		"awake at weekends": {
			schedules: []corev1beta1.HibernationSchedule{{Start: ptr("0 20 * * 1-4"), End: ptr("0 6 * * 1-5")}},
			window:    [2]string{"220000+0000", "230000+0000"},
		},
		"awake on the first night of a month": {
			schedules: []corev1beta1.HibernationSchedule{{Start: ptr("0 20 2-31 * *"), End: ptr("0 6 * * *")}},
			window:    [2]string{"220000+0000", "230000+0000"},
		},
		"only put to sleep": {
			schedules: []corev1beta1.HibernationSchedule{{Start: ptr("0 20 * * *")}},
			window:    [2]string{"220000+0000", "230000+0000"}, want: true,
		},
		"only hibernated, awake in the window of today": {
			schedules: []corev1beta1.HibernationSchedule{{Start: ptr("0 20 * * *")}},
			window:    [2]string{"150000+0000", "160000+0000"},
		},
		"no schedules": {
			window: [2]string{"220000+0000", "230000+0000"},
			change: func(s *corev1beta1.Shoot) { s.Spec.Hibernation.Enabled = ptr(true) },
		},
		"rotated lately": {schedules: []corev1beta1.HibernationSchedule{nights},
			window: [2]string{"220000+0000", "230000+0000"}, change: func(s *corev1beta1.Shoot) {
				s.Status.Credentials.Rotation.ETCDEncryptionKey.LastCompletionTime = &metav1.Time{Time: now.AddDate(0, 0, -3)}
			}},
		"rotating": {schedules: []corev1beta1.HibernationSchedule{nights}, window: [2]string{"220000+0000", "230000+0000"},
			change: func(s *corev1beta1.Shoot) {
				s.Status.Credentials.Rotation.ETCDEncryptionKey.Phase = corev1beta1.RotationPreparing
			}},
		"not wanted": {schedules: []corev1beta1.HibernationSchedule{nights}, window: [2]string{"220000+0000", "230000+0000"},
			change: func(s *corev1beta1.Shoot) {
				s.Spec.Maintenance.AutoRotation.Credentials.ETCDEncryptionKey = nil
				s.Spec.Maintenance.AutoRotation.Credentials.Observability = &corev1beta1.MaintenanceRotationConfig{}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{}
			s.CreationTimestamp = metav1.NewTime(now.AddDate(-1, 0, 0))
			s.Spec.Hibernation = &corev1beta1.Hibernation{Schedules: tc.schedules}
			s.Spec.Maintenance = &corev1beta1.Maintenance{
				TimeWindow: &corev1beta1.MaintenanceTimeWindow{Begin: tc.window[0], End: tc.window[1]},
				AutoRotation: &corev1beta1.MaintenanceAutoRotation{Credentials: &corev1beta1.MaintenanceCredentialsAutoRotation{
					ETCDEncryptionKey: &corev1beta1.MaintenanceRotationConfig{
						RotationPeriod: &metav1.Duration{Duration: 672 * time.Hour},
					}}},
			}
			s.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{
				ETCDEncryptionKey: &corev1beta1.ETCDEncryptionKeyRotation{LastCompletionTime: &metav1.Time{
					Time: now.AddDate(0, -6, 0),
				}}}}
			if tc.change != nil {
				tc.change(s)
			}
			if got := RotationBlocked(s, now); got != tc.want {
				t.Errorf("RotationBlocked() = %t, want %t", got, tc.want)
			}
		})
	}
}
