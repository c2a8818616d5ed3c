package seed

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// The gardenlet may overwrite our condition with a list of conditions that it has read before.
func TestOurConditionIsWatched(t *testing.T) {
	seed := func(status corev1beta1.ConditionStatus) *corev1beta1.Seed {
		s := &corev1beta1.Seed{Spec: corev1beta1.SeedSpec{Backup: &corev1beta1.Backup{}}}
		s.Status.Conditions = []corev1beta1.Condition{{
			Type: corev1beta1.SeedGardenletReady, Status: corev1beta1.ConditionTrue,
		}}
		if status != "" {
			c := corev1beta1.Condition{Type: corev1beta1.SeedBackupBucketsReady, Status: status}
			s.Status.Conditions = append(s.Status.Conditions, c)
		}
		return s
	}
	other := seed(corev1beta1.ConditionTrue)
	other.Status.Conditions[0].Status = corev1beta1.ConditionFalse
	for name, tc := range map[string]struct {
		old, now *corev1beta1.Seed
		want     bool
	}{
		"nothing has changed":           {seed(corev1beta1.ConditionTrue), seed(corev1beta1.ConditionTrue), false},
		"another condition has changed": {seed(corev1beta1.ConditionTrue), other, false},
		"ours has its previous value":   {seed(corev1beta1.ConditionTrue), seed(corev1beta1.ConditionProgressing), true},
		"ours has been dropped":         {seed(corev1beta1.ConditionTrue), seed(""), true},
		"ours has always been missing":  {seed(""), seed(""), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := conditionTouched.Update(event.UpdateEvent{ObjectOld: tc.old, ObjectNew: tc.now}); got != tc.want {
				t.Errorf("conditionTouched = %t, want %t", got, tc.want)
			}
		})
	}
}
