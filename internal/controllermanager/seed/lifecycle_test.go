package seed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestJudge(t *testing.T) {
	at := func(ago time.Duration) *time.Time { moment := noon.Add(-ago); return &moment }
	for name, tc := range map[string]struct {
		renewed *time.Time
		created time.Time
		want    verdict
	}{
		"a fresh heartbeat is checked again when it would be overdue": {
			at(10 * time.Second), noon.Add(-time.Hour), verdict{again: 30 * time.Second},
		},
		"an old heartbeat is overdue": {at(time.Minute), noon.Add(-time.Hour),
			verdict{
				overdue: true, message: "The gardenlet has stopped sending heartbeats; the last one was at 2026-03-01T11:59:00Z.",
			}},
		"a new Seed has a grace period for its first heartbeat": {nil, noon.Add(-10 * time.Second), verdict{again: 30 * time.Second}},
		"a Seed without any heartbeat is overdue later": {
			nil, noon.Add(-time.Minute), verdict{overdue: true, message: "The gardenlet has not sent a heartbeat yet."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, judge(tc.renewed, tc.created, noon), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("judge() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetUnknown(t *testing.T) {
	earlier := metav1.NewTime(noon.Add(-time.Hour))
	ready := corev1beta1.Condition{
		Type: conditionGardenletReady, Status: corev1beta1.ConditionTrue, LastTransitionTime: earlier,
		LastUpdateTime: earlier,
	}
	other := corev1beta1.Condition{Type: "ExtensionsReady", Status: corev1beta1.ConditionTrue}

	first := setUnknown([]corev1beta1.Condition{other, ready}, "gone", noon)
	if first[1].Status != corev1beta1.ConditionUnknown || !first[1].LastTransitionTime.Time.Equal(noon) ||
		first[0].Type != "ExtensionsReady" {
		t.Errorf("conditions became %+v", first)
	}
	if again := setUnknown(first, "gone", noon.Add(time.Minute)); !again[1].LastUpdateTime.Time.Equal(noon) {
		t.Error("an unchanged condition was written again")
	}
	later := setUnknown(first, "still gone", noon.Add(time.Minute))
	if !later[1].LastTransitionTime.Time.Equal(noon) || later[1].Message != "still gone" {
		t.Errorf("a new message changed the transition time: %+v", later[1])
	}
	if added := setUnknown(nil, "gone", noon); len(added) != 1 {
		t.Errorf("conditions became %+v", added)
	}
}
