package machine

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"hortus.dev/hortus/internal/image"
)

// sidecarName is the name of the container, in the form that is usual for providers.
const sidecarName = "machine-controller-manager-provider-local"

// volumeSuffix is added to the names of the volumes that the sidecar mounts. With volumes of its own, the pod template
// remains valid when the author of the Deployment gives its own volumes other names, before webhooks are called. The
// release v0.1.0, to which a seed may go back, does.
const volumeSuffix = "-of-provider"

// AddSidecar adds this process to the pods of a machine-controller-manager, with the same
// arguments, access, limits and rights as their container. A sidecar that is already there is replaced.
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
	var volumes []corev1.Volume
	for i := range sidecar.VolumeMounts {
		mount := &sidecar.VolumeMounts[i]
		for _, v := range pod.Volumes {
			if v.Name == mount.Name {
				v = *v.DeepCopy()
				v.Name += volumeSuffix
				volumes = append(volumes, v)
			}
		}
		mount.Name += volumeSuffix
	}
	isSidecar := func(c corev1.Container) bool { return c.Name == sidecarName }
	pod.Containers = append(slices.DeleteFunc(pod.Containers, isSidecar), *sidecar)
	isVolume := func(v corev1.Volume) bool { return strings.HasSuffix(v.Name, volumeSuffix) }
	pod.Volumes = append(slices.DeleteFunc(pod.Volumes, isVolume), volumes...)
}
