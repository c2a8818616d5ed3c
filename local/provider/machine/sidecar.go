package machine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"hortus.dev/hortus/internal/image"
)

// sidecarName is the name of the container, in the form that is usual for providers.
const sidecarName = "machine-controller-manager-provider-local"

// AddSidecar adds this process to the pods of a machine-controller-manager, beside whose container it gets the same
// arguments, access, limits and rights. A sidecar that is already there is replaced.
func AddSidecar(pod *corev1.PodSpec, hortus string) {
	sidecar := pod.Containers[0].DeepCopy()
	sidecar.Name, sidecar.Image = sidecarName, hortus
	sidecar.Command = []string{image.ControlPlane, Name}
	sidecar.Ports = []corev1.ContainerPort{
		{Name: "machines-health", ContainerPort: HealthPort, Protocol: corev1.ProtocolTCP},
	}
	for _, probe := range []*corev1.Probe{sidecar.StartupProbe, sidecar.ReadinessProbe, sidecar.LivenessProbe} {
		if probe != nil && probe.HTTPGet != nil {
			probe.HTTPGet.Port = intstr.FromInt32(HealthPort)
		}
	}
	isSidecar := func(c corev1.Container) bool { return c.Name == sidecarName }
	pod.Containers = append(slices.DeleteFunc(pod.Containers, isSidecar), *sidecar)
}
