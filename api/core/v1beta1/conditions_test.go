package v1beta1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSetCondition(t *testing.T) {
	before, now := time.Unix(100, 0), time.Unix(200, 0)
	condition := func(status ConditionStatus, message string) Condition {
		return Condition{Type: "Healthy", Status: status, Message: message}
	}
	at := func(c Condition, transition, update time.Time) Condition {
		c.LastTransitionTime, c.LastUpdateTime = metav1.NewTime(transition), metav1.NewTime(update)
		return c
	}
	other := Condition{Type: "Ready", Status: ConditionTrue}
	for name, tc := range map[string]struct {
		list []Condition
		set  Condition
		want []Condition
	}{
		"the first": {
			set:  condition("True", "a"),
			want: []Condition{at(condition("True", "a"), now, now)},
		},
		"next to another": {
			list: []Condition{other}, set: condition("True", "a"),
			want: []Condition{at(condition("True", "a"), now, now), other},
		},
		"the same again": {
			list: []Condition{at(condition("True", "a"), before, before)}, set: condition("True", "a"),
			want: []Condition{at(condition("True", "a"), before, before)},
		},
		"another message": {
			list: []Condition{at(condition("True", "a"), before, before)}, set: condition("True", "b"),
			want: []Condition{at(condition("True", "b"), before, now)},
		},
		"another status": {
			list: []Condition{at(condition("True", "a"), before, before)}, set: condition("False", "a"),
			want: []Condition{at(condition("False", "a"), now, now)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, SetCondition(tc.list, tc.set, now)); diff != "" {
				t.Errorf("SetCondition() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
