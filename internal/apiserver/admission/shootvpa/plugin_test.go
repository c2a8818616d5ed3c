package shootvpa

import (
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestEnable(t *testing.T) {
	pool := []corev1beta1.Worker{{}}
	off := &corev1beta1.VerticalPodAutoscaler{}
	for name, tc := range map[string]struct {
		workers []corev1beta1.Worker
		given   *corev1beta1.VerticalPodAutoscaler
		want    bool
	}{
		"a Shoot with workers":     {pool, nil, true},
		"a Shoot without workers":  {nil, nil, false},
		"a Shoot that disables it": {pool, off, false},
	} {
		shoot := &corev1beta1.Shoot{}
		shoot.Spec.Provider.Workers, shoot.Spec.Kubernetes.VerticalPodAutoscaler = tc.workers, tc.given
		enable(shoot)
		if got := shoot.Spec.Kubernetes.VerticalPodAutoscaler; (got != nil && got.Enabled) != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
