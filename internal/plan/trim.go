package plan

import (
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
)

// Reads says what a plan reads of a fleet.
var Reads = fleet.Options{
	Kinds: []fleet.Kind{fleet.CloudProfiles, fleet.NamespacedCloudProfiles, fleet.Shoots},
	Trim:  trim,
}

// trim drops the large parts of a Shoot that say nothing about its versions.
func trim(shoot *corev1beta1.Shoot) {
	shoot.ManagedFields, shoot.Labels = nil, nil
	delete(shoot.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	shoot.Status = corev1beta1.ShootStatus{
		Credentials:     shoot.Status.Credentials,
		LastMaintenance: shoot.Status.LastMaintenance,
		LastOperation:   shoot.Status.LastOperation,
		Constraints:     shoot.Status.Constraints,
	}
	if last := shoot.Status.LastOperation; last != nil {
		last.Description = ""
	}
	shoot.Spec.DNS, shoot.Spec.Networking, shoot.Spec.Extensions, shoot.Spec.Resources = nil, nil, nil, nil
	shoot.Spec.Provider.InfrastructureConfig, shoot.Spec.Provider.ControlPlaneConfig = nil, nil
	for i := range shoot.Spec.Provider.Workers {
		w := &shoot.Spec.Provider.Workers[i]
		w.ProviderConfig, w.Labels, w.Annotations, w.Taints = nil, nil, nil, nil
		w.Volume, w.Zones, w.DataVolumes = nil, nil, nil
	}
}
