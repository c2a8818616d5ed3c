package systemcomponents

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestPlace(t *testing.T) {
	addons := corev1.Toleration{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}
	pool := corev1.Toleration{
		Key: "pool", Operator: corev1.TolerationOpEqual, Value: "a", Effect: corev1.TaintEffectNoSchedule,
	}
	own := corev1.Toleration{Key: "own", Operator: corev1.TolerationOpExists}
	placed := map[string]string{"worker.gardener.cloud/system-components": "true"}
	owner := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: "a", Controller: ptr.To(true)}}
	}
	for name, tc := range map[string]struct {
		meta       metav1.ObjectMeta
		spec, want corev1.PodSpec
	}{
		"a pod without a place": {want: corev1.PodSpec{
			NodeSelector: placed, Tolerations: []corev1.Toleration{addons, pool},
		}},
		"a pod of a ReplicaSet": {meta: metav1.ObjectMeta{OwnerReferences: owner("ReplicaSet")}, want: corev1.PodSpec{
			NodeSelector: placed, Tolerations: []corev1.Toleration{addons, pool},
		}},
		"the pod's own tolerations stay": {
			spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}, Tolerations: []corev1.Toleration{pool, own}},
			want: corev1.PodSpec{
				NodeSelector: map[string]string{"disk": "ssd", "worker.gardener.cloud/system-components": "true"},
				Tolerations:  []corev1.Toleration{pool, own, addons},
			},
		},
		"the same place": {
			spec: corev1.PodSpec{NodeSelector: placed, Tolerations: []corev1.Toleration{addons, pool}},
			want: corev1.PodSpec{NodeSelector: placed, Tolerations: []corev1.Toleration{addons, pool}},
		},
		"a pod of a DaemonSet": {meta: metav1.ObjectMeta{OwnerReferences: owner("DaemonSet")}},
		"a pod that is skipped": {meta: metav1.ObjectMeta{Labels: map[string]string{
			"system-components-config.resources.gardener.cloud/skip": "true",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: tc.meta, Spec: *tc.spec.DeepCopy()}
			changed := Place(pod, []corev1.Toleration{addons, pool})
			if diff := cmp.Diff(tc.want, pod.Spec); diff != "" {
				t.Errorf("Place() (-want +got):\n%s", diff)
			}
			if want := !cmp.Equal(tc.spec, tc.want); changed != want {
				t.Errorf("Place() = %t, want %t", changed, want)
			}
		})
	}
}
