package v1beta1

import "fmt"

// seedWithoutEffect is withoutEffect for Seeds. Settings that match the fixed behaviour are not named, and neither are
// those that every Seed has by default, such as an enabled dependencyWatchdog.
func seedWithoutEffect(spec *SeedSpec) []string {
	var texts []string
	warn := func(given bool, path, why string) {
		if given {
			texts = append(texts, fmt.Sprintf("%s has no effect: %s", path, why))
		}
	}
	warn(spec.Volume != nil, "spec.volume",
		"volumes have the requested size and the cluster's default StorageClass")
	if spec.Backup != nil && spec.Backup.CredentialsRef != nil {
		warn(spec.Backup.CredentialsRef.Kind == "WorkloadIdentity", "spec.backup.credentialsRef",
			"backups need a Secret; without one there is no bucket, and no Shoot is placed on the Seed")
	}
	settings := spec.Settings
	if settings == nil {
		return texts
	}
	const path = "spec.settings."
	if reservation := settings.ExcessCapacityReservation; reservation != nil {
		warn(reservation.Enabled == nil || *reservation.Enabled, path+"excessCapacityReservation",
			"no capacity is reserved for new control planes")
	}
	if services := settings.LoadBalancerServices; services != nil {
		const why = "only the annotations of the gateway's Service can be configured"
		warn(services.ExternalTrafficPolicy != nil, path+"loadBalancerServices.externalTrafficPolicy", why)
		warn(len(services.Zones) > 0, path+"loadBalancerServices.zones", why)
		warn(services.ProxyProtocol != nil, path+"loadBalancerServices.proxyProtocol", why)
		warn(services.Class != nil, path+"loadBalancerServices.class", why)
	}
	if vpa := settings.VerticalPodAutoscaler; vpa != nil {
		warn(len(vpa.FeatureGates) > 0, path+"verticalPodAutoscaler.featureGates", "Seeds get no vertical pod autoscaler")
		warn(len(vpa.MaxAllowed) > 0, path+"verticalPodAutoscaler.maxAllowed", "Seeds get no vertical pod autoscaler")
	}
	warn(settings.TopologyAwareRouting != nil && settings.TopologyAwareRouting.Enabled, path+"topologyAwareRouting",
		"traffic may leave its zone")
	warn(settings.PersistentVolumeClaimAutoscaler != nil && settings.PersistentVolumeClaimAutoscaler.Enabled,
		path+"persistentVolumeClaimAutoscaler", "volumes keep their size")
	return texts
}
