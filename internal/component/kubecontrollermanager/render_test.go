package kubecontrollermanager

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	base := Values{
		Size:      component.Medium,
		Namespace: "shoot--dev--a", Image: "registry.k8s.io/kube-controller-manager:v1.36.3", Replicas: 1,
		Access:            component.ClientAccess{CASecret: "ca-bundle-1", CertSecret: "kube-controller-manager-1"},
		ClientCASecret:    "ca-client",
		ServiceAccountKey: "service-account-key-1", ServiceCIDR: "100.64.0.0/16",
	}
	workers := base
	workers.Workers, workers.PodCIDR, workers.KubeletCASecret = true, "100.96.0.0/16", "ca-kubelet"
	workers.Config = &corev1beta1.KubeControllerManagerConfig{
		KubernetesConfig:       corev1beta1.KubernetesConfig{FeatureGates: map[string]bool{"A": true}},
		NodeCIDRMaskSize:       ptr.To(int32(24)),
		NodeMonitorGracePeriod: &metav1.Duration{Duration: 40 * time.Second},
		HorizontalPodAutoscalerConfig: &corev1beta1.HorizontalPodAutoscalerConfig{
			SyncPeriod: &metav1.Duration{Duration: 15 * time.Second}, Tolerance: ptr.To(0.1),
		},
	}
	for name, v := range map[string]Values{"workerless": base, "with-workers": workers} {
		t.Run(name, func(t *testing.T) {
			config, deployment := Render(v)
			golden.Objects(t, name, config, deployment)
		})
	}
}
