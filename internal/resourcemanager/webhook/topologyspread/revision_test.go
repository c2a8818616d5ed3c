package topologyspread

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSameRevision(t *testing.T) {
	const skip = "topology-spread-constraints.resources.gardener.cloud/skip"
	selector := func(pairs ...string) *metav1.LabelSelector {
		s := &metav1.LabelSelector{}
		for i := 0; i < len(pairs); i += 2 {
			metav1.AddLabelToSelector(s, pairs[i], pairs[i+1])
		}
		return s
	}
	constraint := func(s *metav1.LabelSelector, keys ...string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", LabelSelector: s, MatchLabelKeys: keys}
	}
	for name, tc := range map[string]struct {
		labels       map[string]string
		before, want []corev1.TopologySpreadConstraint
	}{
		"constraints of a chart": {
			labels: map[string]string{"pod-template-hash": "1"},
			before: []corev1.TopologySpreadConstraint{constraint(selector("app", "a")), constraint(selector())},
			want: []corev1.TopologySpreadConstraint{
				constraint(selector("app", "a", "pod-template-hash", "1")), constraint(selector("pod-template-hash", "1")),
			},
		},
		"matchLabelKeys has the version": {
			labels: map[string]string{"pod-template-hash": "1"},
			before: []corev1.TopologySpreadConstraint{constraint(selector("app", "a"), "pod-template-hash")},
			want:   []corev1.TopologySpreadConstraint{constraint(selector("app", "a"), "pod-template-hash")},
		},
		"the version is specified already": {
			labels: map[string]string{"pod-template-hash": "1"},
			before: []corev1.TopologySpreadConstraint{constraint(selector("pod-template-hash", "1"))},
			want:   []corev1.TopologySpreadConstraint{constraint(selector("pod-template-hash", "1"))},
		},
		"no selector": {
			labels: map[string]string{"pod-template-hash": "1"},
			before: []corev1.TopologySpreadConstraint{constraint(nil)},
			want:   []corev1.TopologySpreadConstraint{constraint(nil)},
		},
		"a pod without a version": {
			before: []corev1.TopologySpreadConstraint{constraint(selector("app", "a"))},
			want:   []corev1.TopologySpreadConstraint{constraint(selector("app", "a"))},
		},
		"a pod that is skipped": {
			labels: map[string]string{"pod-template-hash": "1", skip: "true"},
			before: []corev1.TopologySpreadConstraint{constraint(selector("app", "a"))},
			want:   []corev1.TopologySpreadConstraint{constraint(selector("app", "a"))},
		},
		"no constraints": {labels: map[string]string{"pod-template-hash": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
			pod.Spec.TopologySpreadConstraints = tc.before
			before := pod.DeepCopy()
			changed := SameRevision(pod)
			if diff := cmp.Diff(tc.want, pod.Spec.TopologySpreadConstraints); diff != "" {
				t.Errorf("SameRevision() (-want +got):\n%s", diff)
			}
			if want := !cmp.Equal(before, pod); changed != want {
				t.Errorf("SameRevision() = %t, want %t", changed, want)
			}
		})
	}
}
