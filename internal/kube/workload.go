package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// DeploymentReady reports whether the controller has seen the newest spec and every wanted replica of it is available,
// with no old one left.
func DeploymentReady(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want &&
		s.Replicas == want
}

// StatefulSetReady reports whether the controller has seen the newest spec and every wanted replica of it is ready.
func StatefulSetReady(s *appsv1.StatefulSet) bool {
	want := int32(1)
	if s.Spec.Replicas != nil {
		want = *s.Spec.Replicas
	}
	return s.Status.ObservedGeneration >= s.Generation && s.Status.ReadyReplicas == want &&
		s.Status.UpdatedReplicas >= want && s.Status.Replicas == want
}

// LoadBalancerAddress is the first address of a Service's load balancer, IP before host name, or "".
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

// DeploymentProgress is a short text for people about a Deployment that is not ready.
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

// fetchStep is how often the text about an image that is being fetched changes, and how long nothing is said about it:
// a text for people that changed all the time would be a write each time.
const fetchStep = 30 * time.Second

// WaitingContainers tells why containers of the pods do not start, such as an image that can't be pulled, in short text
// for people; "" if none says why. Plain creation is no reason. It also reports whether one waits for an image that
// comes later: it is being fetched, or its registry asks to try again.
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

// fetchedSince is when the pod had its volumes and its network, after which only images are missing to start
// containers; zero if it has not.
func fetchedSince(status *corev1.PodStatus) time.Time {
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// busyRegistry is what a registry says that asks to try again (status 503): words of its own after the status, or those
// of HTTP; "" if no registry does. The kubelet passes it on in the text of its error only.
func busyRegistry(w *corev1.ContainerStateWaiting) string {
	if w.Reason != "ErrImagePull" && w.Reason != "ImagePullBackOff" {
		return ""
	}
	_, words, _ := strings.Cut(w.Message, ": 503 ")
	return words
}

// ReadyNode is the name of a node that is Ready, or "".
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
