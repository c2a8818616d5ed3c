package component

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// UserID is the ID of the processes' user and group: the one of nobody in images without a distribution.
const UserID int64 = 65532

// firstUnprivilegedPort is the first port that every user may listen on by the kernel's default.
const firstUnprivilegedPort = 1024

// ConfinedPod is the security context of pods that need no access to their node, as Pod Security's level "restricted"
// requires it. Mounted Secrets and volumes belong to the group of the processes.
func ConfinedPod() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:        ptr.To(true),
		RunAsUser:           ptr.To(UserID),
		RunAsGroup:          ptr.To(UserID),
		FSGroup:             ptr.To(UserID),
		FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// ConfinedContainer is the security context of their containers.
func ConfinedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// securityContext is the security context of the workload's pods. It allows ports below 1024, such as 443, in the pod's
// own network.
func (w Workload) securityContext() *corev1.PodSecurityContext {
	security := ConfinedPod()
	for _, p := range w.Ports {
		if p.ContainerPort < firstUnprivilegedPort {
			security.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
		}
	}
	return security
}
