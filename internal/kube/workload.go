package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// DeploymentReady reports whether the controller has observed the current spec, every wanted replica of it is
// available, and no old one is left.
func DeploymentReady(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want &&
		s.Replicas == want
}

// StatefulSetReady reports whether the controller has observed the current spec and every wanted replica of it is
// ready.
func StatefulSetReady(s *appsv1.StatefulSet) bool {
	want := int32(1)
	if s.Spec.Replicas != nil {
		want = *s.Spec.Replicas
	}
	return s.Status.ObservedGeneration >= s.Generation && s.Status.ReadyReplicas == want &&
		s.Status.UpdatedReplicas >= want && s.Status.Replicas == want
}

// LoadBalancerAddress returns the first address of a Service's load balancer, an IP address before a host name, or "".
func LoadBalancerAddress(s *corev1.Service) string {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			return in.IP
		}
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.Hostname != "" {
			return in.Hostname
		}
	}
	return ""
}

// DeploymentProgress returns a short message about a Deployment that is not ready.
func DeploymentProgress(d *appsv1.Deployment) string {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	switch {
	case s.ObservedGeneration < d.Generation:
		return fmt.Sprintf("Deployment %s is rolling out: its newest version has not been observed yet", d.Name)
	case s.UpdatedReplicas < want:
		return fmt.Sprintf("Deployment %s is rolling out: %d of %d pods updated", d.Name, s.UpdatedReplicas, want)
	case s.AvailableReplicas < want:
		return fmt.Sprintf("Deployment %s is rolling out: %d of %d updated pods available", d.Name, s.AvailableReplicas, want)
	}
	return fmt.Sprintf("Deployment %s is rolling out: %d old pods still running", d.Name, s.Replicas-want)
}

// fetchStep is the interval at which the message about an image that is being pulled changes, and the time before the
// first one: each change of a message is a write.
const fetchStep = 30 * time.Second

// WaitingContainers returns a short message with the reasons why containers of the pods do not start, such as an image
// that can't be pulled; "" if there are none. ContainerCreating alone is no reason. It also reports whether a container
// waits for an image that is still being pulled, or whose registry requests a retry.
func WaitingContainers(pods []corev1.Pod, now time.Time) (why string, fetching bool) {
	var reasons []string
	for i := range pods {
		status := &pods[i].Status
		for _, c := range append(slices.Clone(status.InitContainerStatuses), status.ContainerStatuses...) {
			w := c.State.Waiting
			if w == nil {
				continue
			}
			reason := ""
			switch since := fetchedSince(status); {
			case busyRegistry(w) != "":
				reason = fmt.Sprintf("container %s waits for its image: %s", c.Name, busyRegistry(w))
				fetching = true
			case w.Message != "":
				reason = fmt.Sprintf("container %s: %s: %s", c.Name, w.Reason, w.Message)
			case w.Reason == "ContainerCreating" && !since.IsZero():
				fetching = true
				if took := now.Sub(since).Truncate(fetchStep); took > 0 {
					reason = fmt.Sprintf("container %s: image %s is being fetched for %s", c.Name, c.Image, took)
				}
			}
			if reason != "" && !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; "), fetching
}

// fetchedSince returns the time since when the pod has its volumes and network, so that containers wait only for
// images; zero if it does not have them yet.
func fetchedSince(status *corev1.PodStatus) time.Time {
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// busyRegistry returns the message of a registry that requests a retry (status 503): its own text after the status, or
// the standard one; "" if there is none. Only the text of the kubelet's error contains it.
func busyRegistry(w *corev1.ContainerStateWaiting) string {
	if w.Reason != "ErrImagePull" && w.Reason != "ImagePullBackOff" {
		return ""
	}
	_, words, _ := strings.Cut(w.Message, ": 503 ")
	return words
}

// ReadyNode returns the name of a node that is Ready, or "".
func ReadyNode(nodes []corev1.Node) string {
	for i := range nodes {
		for _, c := range nodes[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nodes[i].Name
			}
		}
	}
	return ""
}
