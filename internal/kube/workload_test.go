package kube

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestWaitingContainers(t *testing.T) {
	waiting := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	pod := func(statuses ...corev1.ContainerStatus) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: statuses}}
	}
	got := WaitingContainers([]corev1.Pod{
		pod(waiting("b", "ContainerCreating", ""), waiting("a", "ErrImagePull", "not found")),
		pod(waiting("a", "ErrImagePull", "not found"), corev1.ContainerStatus{Name: "running"}),
	})
	if want := "container a: ErrImagePull: not found"; got != want {
		t.Errorf("WaitingContainers() = %q, want %q", got, want)
	}
}

func TestDeploymentProgress(t *testing.T) {
	for want, status := range map[string]appsv1.DeploymentStatus{
		"Deployment a is rolling out: its newest version has not been observed yet": {ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
		"Deployment a is rolling out: 1 of 2 pods updated":                          {ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 3},
		"Deployment a is rolling out: 1 of 2 updated pods available":                {ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1},
		"Deployment a is rolling out: 1 old pods still running":                     {ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 3},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(2))}, Status: status}
		if DeploymentReady(d) {
			t.Errorf("a Deployment with %+v is ready", status)
		}
		if got := DeploymentProgress(d); got != want {
			t.Errorf("DeploymentProgress() = %q, want %q", got, want)
		}
	}
}
