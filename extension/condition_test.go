package extension

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestSetCondition(t *testing.T) {
	before, now := time.Unix(100, 0), time.Unix(200, 0)
	condition := func(status corev1beta1.ConditionStatus, message string) corev1beta1.Condition {
		return corev1beta1.Condition{Type: "Healthy", Status: status, Message: message}
	}
	at := func(c corev1beta1.Condition, transition, update time.Time) corev1beta1.Condition {
		c.LastTransitionTime, c.LastUpdateTime = metav1.NewTime(transition), metav1.NewTime(update)
		return c
	}
	other := corev1beta1.Condition{Type: "Ready", Status: corev1beta1.ConditionTrue}
	for name, tc := range map[string]struct {
		list []corev1beta1.Condition
		set  corev1beta1.Condition
		want []corev1beta1.Condition
	}{
		"the first": {
			set:  condition("True", "a"),
			want: []corev1beta1.Condition{at(condition("True", "a"), now, now)},
		},
		"beside another": {
			list: []corev1beta1.Condition{other}, set: condition("True", "a"),
			want: []corev1beta1.Condition{at(condition("True", "a"), now, now), other},
		},
		"the same again": {
			list: []corev1beta1.Condition{at(condition("True", "a"), before, before)}, set: condition("True", "a"),
			want: []corev1beta1.Condition{at(condition("True", "a"), before, before)},
		},
		"another message": {
			list: []corev1beta1.Condition{at(condition("True", "a"), before, before)}, set: condition("True", "b"),
			want: []corev1beta1.Condition{at(condition("True", "b"), before, now)},
		},
		"another status": {
			list: []corev1beta1.Condition{at(condition("True", "a"), before, before)}, set: condition("False", "a"),
			want: []corev1beta1.Condition{at(condition("False", "a"), now, now)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, SetCondition(tc.list, tc.set, now)); diff != "" {
				t.Errorf("SetCondition() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
