package v1beta1

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateShootNetworking(shoot *Shoot) field.ErrorList {
	networking, path := shoot.Spec.Networking, specPath.Child("networking")
	if networking == nil {
		if shoot.HasWorkers() {
			return field.ErrorList{field.Required(path.Child("type"), "must be the type of a network extension")}
		}
		return nil
	}
	var errs field.ErrorList
	switch {
	case networking.Type != nil && *networking.Type != "":
		errs = append(errs, validateLabel(*networking.Type, path.Child("type"))...)
	case shoot.HasWorkers():
		errs = append(errs, field.Required(path.Child("type"), "must be the type of a network extension"))
	}
	errs = append(errs, validateIPFamilies(networking.IPFamilies, path.Child("ipFamilies"))...)
	for _, cidr := range []struct {
		name  string
		value *string
	}{{"nodes", networking.Nodes}, {"pods", networking.Pods}, {"services", networking.Services}} {
		if cidr.value != nil {
			errs = append(errs, validateCIDR(*cidr.value, path.Child(cidr.name), networking.IPFamilies...)...)
		}
	}
	return errs
}

func validateIPFamilies(families []IPFamily, path *field.Path) field.ErrorList {
	errs := validateUniqueStrings(families, path)
	for i, family := range families {
		errs = append(errs, validateEnum(family, path.Index(i), IPFamilyIPv4, IPFamilyIPv6)...)
	}
	return errs
}

func validateShootNetworkingUpdate(spec, before *ShootSpec) field.ErrorList {
	path := specPath.Child("networking")
	if before.Networking == nil {
		return nil
	}
	if spec.Networking == nil {
		return field.ErrorList{field.Forbidden(path, "cannot be removed")}
	}
	now, old := spec.Networking, before.Networking
	var errs field.ErrorList
	if deref(old.Type) != "" || deref(now.Type) != "" {
		errs = append(errs, validateImmutable(now.Type, old.Type, path.Child("type"))...)
	}
	errs = append(errs, validateImmutableOnceSet(now.Pods, old.Pods, path.Child("pods"))...)
	errs = append(errs, validateImmutableOnceSet(now.Services, old.Services, path.Child("services"))...)
	if !equality.Semantic.DeepEqual(now.IPFamilies, old.IPFamilies) &&
		!ipFamiliesMayChange(old.IPFamilies, now.IPFamilies) {
		errs = append(errs, field.Forbidden(path.Child("ipFamilies"), "can change only between [IPv4] and [IPv4, IPv6]"))
	}
	return errs
}

func ipFamiliesMayChange(from, to []IPFamily) bool {
	single, dual := []IPFamily{IPFamilyIPv4}, []IPFamily{IPFamilyIPv4, IPFamilyIPv6}
	return slices.Equal(from, single) && slices.Equal(to, dual) || slices.Equal(from, dual) && slices.Equal(to, single)
}

func validateSystemComponents(components *SystemComponents, path *field.Path) field.ErrorList {
	if components == nil || components.CoreDNS == nil {
		return nil
	}
	path = path.Child("coreDNS")
	var errs field.ErrorList
	if autoscaling := components.CoreDNS.Autoscaling; autoscaling != nil {
		errs = append(errs, validateEnum(autoscaling.Mode, path.Child("autoscaling", "mode"),
			CoreDNSAutoscalingModeHorizontal, CoreDNSAutoscalingModeClusterProportional)...)
	}
	if rewriting := components.CoreDNS.Rewriting; rewriting != nil {
		path := path.Child("rewriting", "commonSuffixes")
		errs = append(errs, validateUniqueStrings(rewriting.CommonSuffixes, path)...)
		for i, suffix := range rewriting.CommonSuffixes {
			if !strings.Contains(strings.Trim(suffix, "."), ".") {
				errs = append(errs, field.Invalid(path.Index(i), suffix,
					"must contain a dot between two names, as in .example.org"))
			}
		}
	}
	return errs
}

// lastMinorRolledByNodeLocalDNS is the last one whose nodes must be replaced when the DNS cache is switched.
const lastMinorRolledByNodeLocalDNS = 33

// nodeLocalDNSUpdate keeps the DNS cache as it is where switching it would need new machines, which pools updated in
// place do not get.
func (v ShootValidation) nodeLocalDNSUpdate(shoot, old *Shoot) field.ErrorList {
	if nodeLocalDNSEnabled(shoot) == nodeLocalDNSEnabled(old) {
		return nil
	}
	proxy := shoot.Spec.Kubernetes.KubeProxy
	ipvs := proxy != nil && deref(proxy.Mode) == ProxyModeIPVS
	for i := range shoot.Spec.Provider.Workers {
		pool := &shoot.Spec.Provider.Workers[i]
		if pool.UpdatesInPlace() &&
			(ipvs || !v.Features.NewWorkerPoolHash || minorOf(effectiveVersion(shoot, pool)) <= lastMinorRolledByNodeLocalDNS) {
			return field.ErrorList{field.Forbidden(specPath.Child("systemComponents", "nodeLocalDNS"),
				"cannot be switched: it needs new machines, but pool "+pool.Name+" is updated in place")}
		}
	}
	return nil
}

func nodeLocalDNSEnabled(shoot *Shoot) bool {
	components := shoot.Spec.SystemComponents
	return components != nil && components.NodeLocalDNS != nil && components.NodeLocalDNS.Enabled
}

func validateDNS(dns *DNS, path *field.Path) field.ErrorList {
	if dns == nil {
		return nil
	}
	var errs field.ErrorList
	if dns.Domain != nil {
		errs = append(errs, validateSubdomain(*dns.Domain, path.Child("domain"))...)
	}
	primaries, seen := 0, map[string]bool{}
	for i := range dns.Providers {
		provider, path := &dns.Providers[i], path.Child("providers").Index(i)
		errs = append(errs, validateDNSProvider(provider, path)...)
		if deref(provider.Primary) {
			if primaries++; primaries > 1 {
				errs = append(errs, field.Forbidden(path.Child("primary"), "only one provider can be the primary one"))
			}
		}
		if ref := provider.CredentialsRef; ref != nil && provider.Type != nil {
			id := ref.APIVersion + "/" + ref.Kind + "/" + ref.Name + " " + *provider.Type
			if seen[id] {
				errs = append(errs, field.Invalid(path, ref.Name,
					"must not repeat the credentials and the type of another provider"))
			}
			seen[id] = true
		}
	}
	if primary := primaryDNSProvider(dns); primary != nil && deref(primary.Type) != DNSUnmanaged && dns.Domain == nil {
		errs = append(errs, field.Required(path.Child("domain"), "must be given when there is a primary provider"))
	}
	return errs
}

func primaryDNSProvider(dns *DNS) *DNSProvider {
	if dns == nil {
		return nil
	}
	for i := range dns.Providers {
		if deref(dns.Providers[i].Primary) {
			return &dns.Providers[i]
		}
	}
	return nil
}

func validateDNSProvider(provider *DNSProvider, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ref := provider.CredentialsRef
	switch {
	case deref(provider.Type) == DNSUnmanaged:
		if ref != nil {
			errs = append(errs, field.Invalid(path.Child("credentialsRef"), ref.Name, "must not be given for type unmanaged"))
		}
	case ref != nil && deref(provider.Type) == "":
		errs = append(errs, field.Required(path.Child("type"), "must be given together with credentials"))
	case ref == nil && !deref(provider.Primary):
		errs = append(errs, field.Required(path.Child("credentialsRef"),
			"must be given for a provider that is not the primary one"))
	}
	if name := provider.SecretName; name != nil &&
		(ref == nil || ref.APIVersion != "v1" || ref.Kind != "Secret" || ref.Name != *name) {
		errs = append(errs, field.Invalid(path.Child("secretName"), *name,
			"must be the Secret that credentialsRef names; leave it out"))
	}
	if ref == nil {
		return errs
	}
	path = path.Child("credentialsRef")
	errs = append(errs, validateRequired(ref.Name, path.Child("name"))...)
	errs = append(errs, validateEnum(ref.APIVersion+"/"+ref.Kind, path, credentialsKinds...)...)
	return errs
}

func validateDNSUpdate(spec, before *ShootSpec) field.ErrorList {
	path := specPath.Child("dns")
	if before.DNS == nil {
		return nil
	}
	if spec.DNS == nil {
		return field.ErrorList{field.Forbidden(path, "cannot be removed")}
	}
	errs := validateImmutableOnceSet(spec.DNS.Domain, before.DNS.Domain, path.Child("domain"))
	primary := primaryDNSProvider(before.DNS)
	if before.SeedName == nil || primary == nil {
		return errs
	}
	switch now := primaryDNSProvider(spec.DNS); {
	case now == nil:
		errs = append(errs, field.Forbidden(path.Child("providers"), "the primary provider cannot be removed"))
	case deref(now.Type) != deref(primary.Type):
		errs = append(errs, field.Forbidden(path.Child("providers"), "the type of the primary provider cannot be changed"))
	}
	return errs
}
