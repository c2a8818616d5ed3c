package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
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
