package controlplane

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestHealthy(t *testing.T) {
	running := func(mutate func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: deployment, Generation: 1}}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		mutate(d)
		return d
	}
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		status     corev1beta1.ConditionStatus
		reason     string
	}{
		"missing": {nil, corev1beta1.ConditionFalse, "DeploymentMissing"},
		"running": {running(func(*appsv1.Deployment) {}), corev1beta1.ConditionTrue, "ControlPlaneRunning"},
		"scaled down": {
			running(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(int32(0)) }), corev1beta1.ConditionTrue,
			"ControllersScaledDown",
		},
		"rolling": {
			running(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }), corev1beta1.ConditionProgressing,
			"DeploymentProgressing",
		},
		"down": {
			running(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }), corev1beta1.ConditionFalse,
			"DeploymentUnhealthy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := healthy(tc.deployment)
			if got.Status != tc.status || got.Reason != tc.reason {
				t.Errorf("healthy() = %s (%s), want %s (%s)", got.Status, got.Reason, tc.status, tc.reason)
			}
		})
	}
}
