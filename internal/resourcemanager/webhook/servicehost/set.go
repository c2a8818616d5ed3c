// Package servicehost makes pods of system components in a Shoot reach the API server by its own host name, through the
// gateway of the seed, instead of the Service kubernetes, whose connections the proxy of the node forwards.
package servicehost

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

// Set sets the host name in the variable KUBERNETES_SERVICE_HOST of containers that may not have one of their own, and
// reports whether there were any. Pods that do not use the name servers of their node are not changed.
func Set(pod *corev1.Pod, host string) bool {
	if host == "" || !usesNameServersOfNode(&pod.Spec) ||
		pod.Labels[configuration.LabelServiceHost] == configuration.ServiceHostDisabled {
		return false
	}
	changed := false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			changed = set(&containers[i], host) || changed
		}
	}
	return changed
}

// usesNameServersOfNode reports whether the pod can resolve names without the cluster's DNS. For pods on the network of
// the node, the kubelet takes ClusterFirst for Default.
func usesNameServersOfNode(spec *corev1.PodSpec) bool {
	return spec.DNSPolicy == corev1.DNSDefault || spec.DNSPolicy == corev1.DNSClusterFirst && spec.HostNetwork
}

// set makes the variable the first one, so that the others may refer to it.
func set(c *corev1.Container, host string) bool {
	if len(c.EnvFrom) > 0 ||
		slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == configuration.EnvServiceHost }) {
		return false
	}
	c.Env = slices.Insert(c.Env, 0, corev1.EnvVar{Name: configuration.EnvServiceHost, Value: host})
	return true
}
