package component

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// UserID is the user and group of the processes: nobody's, and the one that images without a distribution use for it.
const UserID int64 = 65532

// firstUnprivilegedPort is the first port that everybody may listen on by the kernel's default.
const firstUnprivilegedPort = 1024

// ConfinedPod is the security context of pods that need nothing of their node, as Pod Security's level "restricted"
// wants it. Mounted Secrets and volumes belong to the group of the processes.
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

// securityContext is that of the workload's pods. One that listens on a port such as 443 may do so in its own network.
func (w Workload) securityContext() *corev1.PodSecurityContext {
	security := ConfinedPod()
	for _, p := range w.Ports {
		if p.ContainerPort < firstUnprivilegedPort {
			security.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
		}
	}
	return security
}
