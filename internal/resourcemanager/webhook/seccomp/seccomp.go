// Package seccomp gives pods without a seccomp profile the default profile of the container runtime. Containers with a
// profile of their own keep it, and privileged containers run without one, as always in Kubernetes.
package seccomp

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

// Default sets the profile of the pod, and reports whether it did.
func Default(pod *corev1.Pod) bool {
	_, skipped := pod.Labels[configuration.LabelSkipSeccomp]
	if skipped || pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.SeccompProfile != nil ||
		!slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), confined) {
		return false
	}
	if pod.Spec.SecurityContext == nil {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	pod.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	return true
}

func confined(c corev1.Container) bool {
	return c.SecurityContext == nil || !ptr.Deref(c.SecurityContext.Privileged, false)
}
