package shootnodelocaldns

import (
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestEnable(t *testing.T) {
	pool := []corev1beta1.Worker{{}}
	for name, tc := range map[string]struct {
		workers []corev1beta1.Worker
		given   *corev1beta1.SystemComponents
		want    bool
	}{
		"a Shoot with workers":     {pool, nil, true},
		"a Shoot without workers":  {nil, nil, false},
		"a Shoot that disables it": {pool, &corev1beta1.SystemComponents{NodeLocalDNS: &corev1beta1.NodeLocalDNS{}}, false},
	} {
		shoot := &corev1beta1.Shoot{}
		shoot.Spec.Provider.Workers, shoot.Spec.SystemComponents = tc.workers, tc.given
		enable(shoot)
		components := shoot.Spec.SystemComponents
		if got := components != nil && components.NodeLocalDNS != nil && components.NodeLocalDNS.Enabled; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
