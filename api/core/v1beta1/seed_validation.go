package v1beta1

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// renew-workload-identity-tokens is refused: no Seed has such tokens.
var seedOperations = []string{OperationReconcile, OperationRenewGardenAccessSecrets, OperationRenewKubeconfig}

// ValidateSeed checks a new Seed.
func ValidateSeed(seed *Seed) field.ErrorList {
	errs := validateMeta(&seed.ObjectMeta, false, nameIsLabel)
	errs = append(errs, validateOperation(seed.Annotations, nil, seedOperations...)...)
	return append(errs, validateSeedSpec(&seed.Spec, specPath)...)
}

// ValidateSeedUpdate checks a changed Seed.
func ValidateSeedUpdate(seed, old *Seed) field.ErrorList {
	errs := validateMetaUpdate(&seed.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateOperation(seed.Annotations, old.Annotations, seedOperations...)...)
	errs = append(errs, validateSeedSpec(&seed.Spec, specPath)...)
	return append(errs, validateSeedSpecUpdate(&seed.Spec, &old.Spec, specPath)...)
}

// ValidateSeedStatusUpdate checks a changed status.
func ValidateSeedStatusUpdate(seed, old *Seed) field.ErrorList {
	if deref(old.Status.ClusterIdentity) == "" {
		return nil
	}
	return validateImmutable(seed.Status.ClusterIdentity, old.Status.ClusterIdentity, statusPath.Child("clusterIdentity"))
}

// ValidateSeedTemplate checks the Seed in another object's configuration.
func ValidateSeedTemplate(template *SeedTemplate, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(template.Labels, path.Child("metadata", "labels"))
	annotations := path.Child("metadata", "annotations")
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, annotations)...)
	if _, given := template.Annotations[AnnotationOperation]; given {
		errs = append(errs, field.Forbidden(annotations.Key(AnnotationOperation),
			"would be requested again at each start of a gardenlet; annotate the Seed"))
	}
	return append(errs, validateSeedSpec(&template.Spec, path.Child("spec"))...)
}

// ValidateSeedTemplateUpdate checks how the Seed in another object's configuration changes.
func ValidateSeedTemplateUpdate(template, old *SeedTemplate, path *field.Path) field.ErrorList {
	return validateSeedSpecUpdate(&template.Spec, &old.Spec, path.Child("spec"))
}

// validateOperation checks an annotation with a single operation. One that waits to be picked up is not replaced.
func validateOperation(annotations, old map[string]string, operations ...string) field.ErrorList {
	path, requested := annotationsPath.Key(AnnotationOperation), annotations[AnnotationOperation]
	if requested == "" {
		return nil
	}
	pending := old[AnnotationOperation]
	if pending == requested {
		return nil // Earlier versions may have accepted it.
	}
	errs := validateEnum(requested, path, operations...)
	if pending != "" {
		errs = append(errs, field.Forbidden(path, "the operation "+pending+" has not been picked up yet"))
	}
	return errs
}

func validateSeedSpec(spec *SeedSpec, path *field.Path) field.ErrorList {
	provider := path.Child("provider")
	errs := validateRequired(spec.Provider.Type, provider.Child("type"))
	errs = append(errs, validateRequired(spec.Provider.Region, provider.Child("region"))...)
	errs = append(errs, validateUniqueStrings(spec.Provider.Zones, provider.Child("zones"))...)
	errs = append(errs, validateSeedNetworks(&spec.Networks, path.Child("networks"))...)
	errs = append(errs, validateBackup(spec.Backup, spec.Provider.Type, path.Child("backup"))...)
	errs = append(errs, validateSeedTaints(spec.Taints, path.Child("taints"))...)
	errs = append(errs, validateSeedVolume(spec.Volume, path.Child("volume"))...)
	errs = append(errs, validateSeedSettings(spec.Settings, spec.Provider.Zones, path.Child("settings"))...)
	errs = append(errs, validateSeedIngress(spec, path)...)
	errs = append(errs, validateSeedDNS(&spec.DNS, path.Child("dns"))...)
	errs = append(errs, validateAccessRestrictions(spec.AccessRestrictions, path.Child("accessRestrictions"))...)
	errs = append(errs, validateExtensions(spec.Extensions, path.Child("extensions"))...)
	return append(errs, validateNamedResources(spec.Resources, path.Child("resources"),
		"v1/Secret", "v1/ConfigMap", "security.gardener.cloud/v1alpha1/WorkloadIdentity")...)
}

// minServicesBits is the widest IPv4 range of services, over which addresses are mapped one to one by the tunnel.
const minServicesBits = 8

func validateSeedNetworks(networks *SeedNetworks, path *field.Path) field.ErrorList {
	errs := validateIPFamilies(networks.IPFamilies, path.Child("ipFamilies"))
	cidr := func(value *string, path *field.Path) {
		if value == nil {
			return
		}
		wrong := validateCIDR(*value, path, networks.IPFamilies...)
		if wrong == nil && inReservedRange(*value) {
			wrong = field.ErrorList{
				field.Invalid(path, *value, "must not overlap 240.0.0.0/8 to 244.0.0.0/8, which are reserved"),
			}
		}
		errs = append(errs, wrong...)
	}
	nodes, pods, services := path.Child("nodes"), path.Child("pods"), path.Child("services")
	cidr(networks.Nodes, nodes)
	cidr(&networks.Pods, pods)
	cidr(&networks.Services, services)
	if prefix, ok := parseCIDR(&networks.Services); ok && prefix.Addr().Is4() && prefix.Bits() < minServicesBits {
		errs = append(errs, field.Invalid(services, networks.Services, "must not be wider than a /"+
			strconv.Itoa(minServicesBits)))
	}
	errs = append(errs, ValidateDisjointCIDRs(NamedCIDR{
		nodes, networks.Nodes,
	}, NamedCIDR{pods, &networks.Pods}, NamedCIDR{services, &networks.Services})...)
	if defaults := networks.ShootDefaults; defaults != nil {
		pods, services := path.Child("shootDefaults", "pods"), path.Child("shootDefaults", "services")
		cidr(defaults.Pods, pods)
		cidr(defaults.Services, services)
		errs = append(errs, ValidateDisjointCIDRs(NamedCIDR{pods, defaults.Pods}, NamedCIDR{services, defaults.Services})...)
	}
	for i, block := range networks.BlockCIDRs {
		errs = append(errs, validateCIDR(block, path.Child("blockCIDRs").Index(i))...)
	}
	return errs
}

func inReservedRange(cidr string) bool {
	prefix, ok := parseCIDR(&cidr)
	return ok && prefix.Addr().Is4() && slices.ContainsFunc(reservedNetworks, prefix.Overlaps)
}

func validateBackup(backup *Backup, seedProvider string, path *field.Path) field.ErrorList {
	if backup == nil {
		return nil
	}
	errs := validateRequired(backup.Provider, path.Child("provider"))
	if backup.Provider != "" && backup.Provider != seedProvider && deref(backup.Region) == "" {
		errs = append(errs, field.Invalid(path.Child("region"), "",
			"must be given when the provider is not that of the seed"))
	}
	return append(errs, validateCredentialsRef(backup.CredentialsRef, path.Child("credentialsRef"), true)...)
}

func validateSeedTaints(taints []SeedTaint, path *field.Path) field.ErrorList {
	errs := validateUnique(taints, path, func(t *SeedTaint) string {
		if t.Value == nil || t.Key == "" {
			return t.Key
		}
		return t.Key + "=" + *t.Value
	}, itself)
	for i, taint := range taints {
		errs = append(errs, validateRequired(taint.Key, path.Index(i).Child("key"))...)
	}
	return errs
}

func validateSeedVolume(volume *SeedVolume, path *field.Path) field.ErrorList {
	if volume == nil {
		return nil
	}
	errs := notNegative(path, []namedQuantity{{"minimumSize", volume.MinimumSize}})
	path = path.Child("providers")
	errs = append(errs, validateUnique(volume.Providers, path, func(p *SeedVolumeProvider) string { return p.Purpose },
		child("purpose"))...)
	for i, provider := range volume.Providers {
		errs = append(errs, validateRequired(provider.Purpose, path.Index(i).Child("purpose"))...)
		errs = append(errs, validateRequired(provider.Name, path.Index(i).Child("name"))...)
	}
	return errs
}

func validateSeedSettings(settings *SeedSettings, zones []string, path *field.Path) field.ErrorList {
	if settings == nil {
		return nil
	}
	var errs field.ErrorList
	if reservation := settings.ExcessCapacityReservation; reservation != nil {
		for i, config := range reservation.Configs {
			path := path.Child("excessCapacityReservation", "configs").Index(i)
			if len(config.Resources) == 0 {
				errs = append(errs, field.Required(path.Child("resources"), "must name at least one resource"))
			}
			for _, name := range sortedKeys(config.Resources) {
				if amount := config.Resources[name]; amount.Sign() < 0 {
					errs = append(errs, field.Invalid(path.Child("resources").Key(string(name)), amount.String(),
						"must not be negative"))
				}
			}
			errs = append(errs, metav1validation.ValidateLabels(config.NodeSelector, path.Child("nodeSelector"))...)
		}
	}
	errs = append(errs, validateLoadBalancerServices(settings.LoadBalancerServices, zones,
		path.Child("loadBalancerServices"))...)
	if routing := settings.TopologyAwareRouting; routing != nil && routing.Enabled && len(zones) < 2 {
		errs = append(errs, field.Forbidden(path.Child("topologyAwareRouting", "enabled"),
			"needs a seed with at least two zones"))
	}
	if selection := settings.ZoneSelection; selection != nil {
		errs = append(errs, validateEnum(selection.Mode, path.Child("zoneSelection", "mode"), ZoneSelectionPrefer,
			ZoneSelectionEnforce)...)
	}
	return errs
}

func validateLoadBalancerServices(
	services *SeedSettingLoadBalancerServices, zones []string, path *field.Path,
) field.ErrorList {
	if services == nil {
		return nil
	}
	policies := []corev1.ServiceExternalTrafficPolicy{
		corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal,
	}
	errs := apivalidation.ValidateAnnotations(services.Annotations, path.Child("annotations"))
	errs = append(errs, validateOptionalEnum(services.ExternalTrafficPolicy, path.Child("externalTrafficPolicy"),
		policies...)...)
	path = path.Child("zones")
	if len(services.Zones) > 0 && len(zones) < 2 {
		errs = append(errs, field.Forbidden(path, "needs a seed with at least two zones"))
	}
	errs = append(errs, validateUnique(services.Zones, path,
		func(z *SeedSettingLoadBalancerServicesZones) string { return z.Name }, child("name"))...)
	for i, zone := range services.Zones {
		path := path.Index(i)
		if !slices.Contains(zones, zone.Name) {
			errs = append(errs, field.NotFound(path.Child("name"), zone.Name))
		}
		errs = append(errs, apivalidation.ValidateAnnotations(zone.Annotations, path.Child("annotations"))...)
		errs = append(errs, validateOptionalEnum(zone.ExternalTrafficPolicy, path.Child("externalTrafficPolicy"),
			policies...)...)
	}
	return errs
}

func validateSeedIngress(spec *SeedSpec, path *field.Path) field.ErrorList {
	if spec.Ingress == nil {
		return field.ErrorList{field.Required(path.Child("ingress"), "must be given")}
	}
	ingress := path.Child("ingress")
	var errs field.ErrorList
	if spec.Ingress.Domain == "" {
		errs = append(errs, field.Required(ingress.Child("domain"), "must be given"))
	} else {
		errs = append(errs, validateSubdomain(spec.Ingress.Domain, ingress.Child("domain"))...)
	}
	errs = append(errs, validateEnum(spec.Ingress.Controller.Kind, ingress.Child("controller", "kind"), "nginx")...)
	if spec.DNS.Provider == nil {
		errs = append(errs, field.Required(path.Child("dns", "provider"), "must be given, because the ingress needs records"))
	}
	return errs
}

func validateSeedDNS(dns *SeedDNS, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if provider := dns.Provider; provider != nil {
		path := path.Child("provider")
		errs = append(errs, validateRequired(provider.Type, path.Child("type"))...)
		errs = append(errs, validateCredentialsRef(provider.CredentialsRef, path.Child("credentialsRef"), true)...)
	}
	if dns.Internal == nil {
		errs = append(errs, field.Required(path.Child("internal"),
			"must be given; it is the domain under which API servers are always reachable"))
	} else {
		errs = append(errs, validateSeedDNSProvider(dns.Internal, path.Child("internal"))...)
	}
	errs = append(errs, validateUnique(dns.Defaults, path.Child("defaults"),
		func(d *SeedDNSProviderConfig) string { return d.Domain }, child("domain"))...)
	for i := range dns.Defaults {
		errs = append(errs, validateSeedDNSProvider(&dns.Defaults[i], path.Child("defaults").Index(i))...)
	}
	return errs
}

func validateSeedDNSProvider(config *SeedDNSProviderConfig, path *field.Path) field.ErrorList {
	errs := validateRequired(config.Type, path.Child("type"))
	if config.Domain == "" {
		errs = append(errs, field.Required(path.Child("domain"), "must be given"))
	} else {
		errs = append(errs, validateSubdomain(config.Domain, path.Child("domain"))...)
	}
	return append(errs, validateCredentialsRef(&config.CredentialsRef, path.Child("credentialsRef"), true)...)
}

func validateSeedSpecUpdate(spec, old *SeedSpec, path *field.Path) field.ErrorList {
	networks := path.Child("networks")
	errs := validateImmutable(spec.Networks.IPFamilies, old.Networks.IPFamilies, networks.Child("ipFamilies"))
	errs = append(errs, validateImmutable(spec.Networks.Pods, old.Networks.Pods, networks.Child("pods"))...)
	errs = append(errs, validateImmutable(spec.Networks.Services, old.Networks.Services, networks.Child("services"))...)
	errs = append(errs, validateImmutableOnceSet(spec.Networks.Nodes, old.Networks.Nodes, networks.Child("nodes"))...)
	if spec.Ingress != nil && old.Ingress != nil {
		errs = append(errs, validateImmutable(spec.Ingress.Domain, old.Ingress.Domain, path.Child("ingress", "domain"))...)
	}
	if old.Backup != nil {
		backup := path.Child("backup")
		if spec.Backup == nil {
			errs = append(errs, field.Forbidden(backup, "cannot be removed, because control planes keep their backups there"))
		} else {
			errs = append(errs, validateImmutable(spec.Backup.Provider, old.Backup.Provider, backup.Child("provider"))...)
			errs = append(errs, validateImmutable(spec.Backup.Region, old.Backup.Region, backup.Child("region"))...)
		}
	}
	if len(old.DNS.Defaults) > 0 && len(spec.DNS.Defaults) == 0 {
		errs = append(errs, field.Forbidden(path.Child("dns", "defaults"), "cannot be emptied"))
	}
	return errs
}
