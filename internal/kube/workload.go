package kube

import (
	"fmt"
	"slices"
	"strings"

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
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want && s.Replicas == want
}

// StatefulSetReady reports whether the controller has seen the newest spec and every wanted replica of it is ready.
func StatefulSetReady(s *appsv1.StatefulSet) bool {
	want := int32(1)
	if s.Spec.Replicas != nil {
		want = *s.Spec.Replicas
	}
	return s.Status.ObservedGeneration >= s.Generation && s.Status.ReadyReplicas == want && s.Status.UpdatedReplicas >= want && s.Status.Replicas == want
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

// WaitingContainers tells why containers of the pods do not start, such as an image that can't be pulled, in short text
// for people; "" if none says why. Plain creation is no reason.
func WaitingContainers(pods []corev1.Pod) string {
	var reasons []string
	for i := range pods {
		for _, c := range append(slices.Clone(pods[i].Status.InitContainerStatuses), pods[i].Status.ContainerStatuses...) {
			w := c.State.Waiting
			if w == nil || w.Message == "" {
				continue
			}
			if reason := fmt.Sprintf("container %s: %s: %s", c.Name, w.Reason, w.Message); !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; ")
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
