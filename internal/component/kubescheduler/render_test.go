package kubescheduler

import (
	"testing"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	balanced := Values{
		Size:      component.Large,
		Namespace: "shoot--dev--a", Image: "registry.k8s.io/kube-scheduler:v1.36.3", Replicas: 1,
		Access: component.ClientAccess{CASecret: "ca-bundle-1", CertSecret: "kube-scheduler-1"},
	}
	packing := balanced
	packing.Config = &corev1beta1.KubeSchedulerConfig{Profile: ptr.To(corev1beta1.SchedulingProfileBinPacking)}
	for name, v := range map[string]Values{"balanced": balanced, "bin-packing": packing} {
		t.Run(name, func(t *testing.T) {
			config, deployment := Render(v)
			golden.Objects(t, name, config, deployment)
		})
	}
}
