package shootvalidator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/offer"
)

var specPath = field.NewPath("spec")

// collect lists all that the profile does not offer.
func (r *request) collect() field.ErrorList {
	if r.profile == nil {
		return nil
	}
	errs := slices.Clone(r.versionErrors)
	errs = append(errs, r.profileChange()...)
	errs = append(errs, offer.Validate(r.shoot, r.old, r.profile.Spec)...)
	errs = append(errs, r.providerOfCredentials()...)
	errs = append(errs, r.networks()...)
	errs = append(errs, r.domain()...)
	return append(errs, r.controlPlaneZones()...)
}

// profileChange allows a change between a CloudProfile and the NamespacedCloudProfiles below it, if the new one has all
// that the pools use.
func (r *request) profileChange() field.ErrorList {
	if r.oldProfile == nil {
		return nil
	}
	if r.oldProfile.Parent == r.profile.Parent {
		return offer.InUse(r.shoot, r.old, r.profile.Spec)
	}
	return field.ErrorList{field.Forbidden(specPath.Child("cloudProfile"),
		fmt.Sprintf("the Shoot is made from CloudProfile %q and can change only to NamespacedCloudProfiles of it", r.oldProfile.Parent))}
}

func (r *request) providerOfCredentials() field.ErrorList {
	given := r.shoot.Spec.Provider.Type
	if r.bindingProvider == "" || slices.Contains(strings.Split(r.bindingProvider, ","), given) {
		return nil
	}
	return field.ErrorList{field.Invalid(specPath.Child("provider", "type"), given, fmt.Sprintf("the credentials binding is for provider type %q", r.bindingProvider))}
}

// networks checks that the address ranges of the Shoot are apart from each other and, when it is placed on a Seed,
// apart from those of the Seed, with which they are connected by the tunnel.
func (r *request) networks() field.ErrorList {
	networking := r.shoot.Spec.Networking
	if networking == nil {
		return nil
	}
	path := specPath.Child("networking")
	ranges := map[string]netip.Prefix{}
	for name, text := range map[string]*string{"nodes": networking.Nodes, "pods": networking.Pods, "services": networking.Services} {
		if prefix, err := netip.ParsePrefix(ptr.Deref(text, "")); err == nil {
			ranges[name] = prefix
		}
	}
	errs := corev1beta1.ValidateDisjointShootNetworks(networking)
	if r.seed == nil {
		return errs
	}
	if r.shoot.HasWorkers() && networking.Pods == nil {
		errs = append(errs, field.Required(path.Child("pods"), "the Seed has no default"))
	}
	if networking.Services == nil {
		errs = append(errs, field.Required(path.Child("services"), "the Seed has no default"))
	}
	if r.old != nil && ptr.Deref(r.old.Spec.SeedName, "") == r.seed.Name {
		return errs
	}
	seed := r.seed.Spec.Networks
	for _, other := range [][2]string{{"nodes", ptr.Deref(seed.Nodes, "")}, {"pods", seed.Pods}, {"services", seed.Services}} {
		prefix, err := netip.ParsePrefix(other[1])
		if err != nil {
			continue
		}
		for _, name := range []string{"nodes", "pods", "services"} {
			for _, own := range append([]netip.Prefix{ranges[name]}, r.networksInUse(name)...) {
				if own.IsValid() && own.Overlaps(prefix) {
					errs = append(errs, field.Invalid(path.Child(name), own.String(), fmt.Sprintf("overlaps with the %s %s of Seed %q", other[0], prefix, r.seed.Name)))
					break
				}
			}
		}
	}
	return errs
}

// networksInUse are those that the status tells of, beyond the one in the spec.
func (r *request) networksInUse(name string) []netip.Prefix {
	if r.old == nil || r.old.Status.Networking == nil {
		return nil
	}
	status := r.old.Status.Networking
	var prefixes []netip.Prefix
	for _, text := range map[string][]string{"nodes": status.Nodes, "pods": status.Pods, "services": status.Services}[name] {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}
