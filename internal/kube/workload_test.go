package kube

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestWaitingContainers(t *testing.T) {
	waiting := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}
	}
	pod := func(statuses ...corev1.ContainerStatus) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: statuses}}
	}
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	withNetwork := func(p corev1.Pod) corev1.Pod {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(begun),
		}}
		return p
	}
	creating := waiting("b", "ContainerCreating", "")
	creating.Image = "b:1"
	busy := "failed to pull: unexpected status from HEAD request: 503 it is being built"
	for name, tc := range map[string]struct {
		pods     []corev1.Pod
		after    time.Duration
		want     string
		fetching bool
	}{
		"an error is reported once": {
			pods: []corev1.Pod{
				pod(creating, waiting("a", "ErrImagePull", "not found")),
				pod(waiting("a", "ErrImagePull", "not found"), corev1.ContainerStatus{Name: "running"}),
			},
			after: time.Hour, want: "container a: ErrImagePull: not found",
		},
		"a pod without network pulls nothing": {pods: []corev1.Pod{pod(creating)}, after: time.Hour},
		"an image that is pulled in time is not reported": {
			pods: []corev1.Pod{withNetwork(pod(creating))}, after: 29 * time.Second, fetching: true,
		},
		"an image that takes long is reported": {
			pods: []corev1.Pod{withNetwork(pod(creating))}, after: 100 * time.Second,
			want: "container b: image b:1 is being fetched for 1m30s", fetching: true,
		},
		"other containers wait for their turn": {pods: []corev1.Pod{
			withNetwork(pod(waiting("b", "PodInitializing", ""))),
		}, after: time.Hour},
		"a registry may request a retry": {pods: []corev1.Pod{
			withNetwork(pod(waiting("b", "ImagePullBackOff", busy))),
		}, want: "container b waits for its image: it is being built", fetching: true},
		"the same message of a container has no effect": {
			pods: []corev1.Pod{pod(waiting("b", "CrashLoopBackOff", busy))}, want: "container b: CrashLoopBackOff: " + busy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if why, fetching := WaitingContainers(tc.pods, begun.Add(tc.after)); why != tc.want || fetching != tc.fetching {
				t.Errorf("WaitingContainers() = %q, %t, want %q, %t", why, fetching, tc.want, tc.fetching)
			}
		})
	}
}

func TestDeploymentProgress(t *testing.T) {
	for want, status := range map[string]appsv1.DeploymentStatus{
		"Deployment a is rolling out: its newest version has not been observed yet": {
			ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2,
		},
		"Deployment a is rolling out: 1 of 2 pods updated": {
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 3,
		},
		"Deployment a is rolling out: 1 of 2 updated pods available": {
			ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1,
		},
		"Deployment a is rolling out: 1 old pods still running": {
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 3,
		},
	} {
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(2))},
			Status: status,
		}
		if DeploymentReady(d) {
			t.Errorf("a Deployment with %+v is ready", status)
		}
		if got := DeploymentProgress(d); got != want {
			t.Errorf("DeploymentProgress() = %q, want %q", got, want)
		}
	}
}
