package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// SetDefaultsSeed fills the empty fields of a Seed that have a default.
func SetDefaultsSeed(seed *Seed) {
	setDefaultsSeedSpec(&seed.Spec)
}

// SetDefaultsSeedTemplate fills the empty fields of a SeedTemplate that have a default.
func SetDefaultsSeedTemplate(template *SeedTemplate) {
	setDefaultsSeedSpec(&template.Spec)
}

func setDefaultsSeedSpec(spec *SeedSpec) {
	if len(spec.Networks.IPFamilies) == 0 {
		spec.Networks.IPFamilies = []IPFamily{IPFamilyIPv4}
	}
	if backup := spec.Backup; backup != nil {
		setDefaultCredentialsRef(&backup.CredentialsRef, backup.SecretRef)
	}
	if provider := spec.DNS.Provider; provider != nil {
		setDefaultCredentialsRef(&provider.CredentialsRef, provider.SecretRef)
	}
	setDefault(&spec.Settings, SeedSettings{})
	settings := spec.Settings
	if reservation := settings.ExcessCapacityReservation; reservation != nil &&
		(reservation.Enabled == nil || *reservation.Enabled) && len(reservation.Configs) == 0 {
		reservation.Configs = []SeedSettingExcessCapacityReservationConfig{{Resources: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("2"),
			corev1.ResourceMemory: resource.MustParse("6Gi"),
		}}}
	}
	setDefault(&settings.Scheduling, SeedSettingScheduling{Visible: true})
	setDefault(&settings.LoadBalancerServices, SeedSettingLoadBalancerServices{})
	setDefault(&settings.LoadBalancerServices.ZonalIngress, SeedSettingLoadBalancerServicesZonalIngress{})
	setDefault(&settings.LoadBalancerServices.ZonalIngress.Enabled, true)
	setDefault(&settings.VerticalPodAutoscaler, SeedSettingVerticalPodAutoscaler{Enabled: true})
	setDefault(&settings.DependencyWatchdog, SeedSettingDependencyWatchdog{})
	setDefault(&settings.DependencyWatchdog.Weeder, SeedSettingDependencyWatchdogWeeder{Enabled: true})
	setDefault(&settings.DependencyWatchdog.Prober, SeedSettingDependencyWatchdogProber{Enabled: true})
	setDefault(&settings.TopologyAwareRouting, SeedSettingTopologyAwareRouting{})
	setDefault(&settings.PersistentVolumeClaimAutoscaler, SeedSettingPersistentVolumeClaimAutoscaler{})
}

// setDefaultCredentialsRef accepts the older spelling. The API server keeps the two equal when it stores an object.
func setDefaultCredentialsRef(credentialsRef **corev1.ObjectReference, secretRef *corev1.SecretReference) {
	if *credentialsRef == nil && secretRef != nil {
		*credentialsRef = &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Secret", Namespace: secretRef.Namespace, Name: secretRef.Name,
		}
	}
}
