package component

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestSystemComponents(t *testing.T) {
	pool := func(allow *bool, taints ...corev1.Taint) corev1beta1.Worker {
		w := corev1beta1.Worker{Taints: taints}
		if allow != nil {
			w.SystemComponents = &corev1beta1.WorkerSystemComponents{Allow: *allow}
		}
		return w
	}
	gpu := corev1.Taint{Key: "gpu", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	batch := corev1.Taint{Key: "batch", Effect: corev1.TaintEffectNoExecute}
	tolerate := func(t corev1.Taint) corev1.Toleration {
		return corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
	}
	critical := corev1.Toleration{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}
	for name, tc := range map[string]struct {
		pools []corev1beta1.Worker
		want  []corev1.Toleration
	}{
		"no taints": {[]corev1beta1.Worker{pool(nil)}, []corev1.Toleration{critical}},
		"taints of pools that allow": {
			[]corev1beta1.Worker{pool(nil, gpu), pool(new(true), batch, gpu)},
			[]corev1.Toleration{critical, tolerate(batch), tolerate(gpu)},
		},
		"not those of others": {[]corev1beta1.Worker{pool(nil), pool(new(false), gpu)}, []corev1.Toleration{critical}},
	} {
		got := SystemComponents(tc.pools)
		if diff := cmp.Diff(tc.want, got.Tolerations); diff != "" {
			t.Errorf("%s: tolerations (-want +got):\n%s", name, diff)
		}
		if got.NodeSelector[corev1beta1.LabelWorkerPoolSystemComponents] != "true" {
			t.Errorf("%s: node selector %v", name, got.NodeSelector)
		}
	}
}
