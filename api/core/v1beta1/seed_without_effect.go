package v1beta1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SeedWithoutEffect names what in the spec of a Seed, at a path, has no effect. Settings that match the fixed behaviour
// are not named, and neither are those that every Seed has by default, such as an enabled dependencyWatchdog.
func SeedWithoutEffect(spec *SeedSpec, at *field.Path) []string {
	var texts []string
	warn := func(given bool, path, why string) {
		if given {
			texts = append(texts, fmt.Sprintf("%s.%s has no effect: %s", at, path, why))
		}
	}
	const noIdentity = "DNS providers need a Secret"
	if internal := spec.DNS.Internal; internal != nil {
		warn(internal.CredentialsRef.Kind == kindWorkloadIdentity, "dns.internal.credentialsRef",
			noIdentity+"; without one no Shoot is created on the Seed")
	}
	for i := range spec.DNS.Defaults {
		warn(spec.DNS.Defaults[i].CredentialsRef.Kind == kindWorkloadIdentity,
			fmt.Sprintf("dns.defaults[%d].credentialsRef", i), noIdentity)
	}
	warn(spec.Ingress != nil && spec.Ingress.Controller.ProviderConfig != nil, "ingress.controller.providerConfig",
		"there is no ingress controller")
	warn(slices.Contains(spec.Networks.IPFamilies, IPFamilyIPv6), "networks.ipFamilies", "only IPv4 is used")
	warn(len(spec.Resources) > 0, "resources", "extensions of the Seed get no copies of them")
	warn(spec.Volume != nil, "volume",
		"volumes have the requested size and the cluster's default StorageClass")
	if spec.Backup != nil && spec.Backup.CredentialsRef != nil {
		warn(spec.Backup.CredentialsRef.Kind == kindWorkloadIdentity, "backup.credentialsRef",
			"backups need a Secret; without one there is no bucket, and no Shoot is placed on the Seed")
	}
	settings := spec.Settings
	if settings == nil {
		return texts
	}
	const path = "settings."
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
