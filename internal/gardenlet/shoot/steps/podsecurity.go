package steps

import (
	"slices"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const labelPodSecurity = "pod-security.kubernetes.io/enforce"

// podSecurityLevels are the levels of Kubernetes' Pod Security, the strictest first.
var podSecurityLevels = []string{"restricted", "baseline", "privileged"}

// podSecurity is the strictest level under which all extensions of the seed can run their pods in control planes. All
// pods of our own meet the strictest one. An extension says by annotation what it needs; one that says nothing, or
// something unknown, may run anything, as the contract has it.
func podSecurity(
	registrations []corev1beta1.ControllerRegistration, installations []corev1beta1.ControllerInstallation,
) string {
	weakest := 0
	for i := range installations {
		level := -1
		if at := slices.IndexFunc(registrations, func(r corev1beta1.ControllerRegistration) bool {
			return r.Name == installations[i].Spec.RegistrationRef.Name
		}); at >= 0 {
			level = slices.Index(podSecurityLevels, registrations[at].Annotations[corev1beta1.AnnotationPodSecurityEnforce])
		}
		if level < 0 {
			level = len(podSecurityLevels) - 1
		}
		weakest = max(weakest, level)
	}
	return podSecurityLevels[weakest]
}
