package shootvalidator

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile/offer"
)

var specPath = field.NewPath("spec")

// collect returns an error for each value that the profile does not offer.
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

// profileChange allows a change between a CloudProfile and its NamespacedCloudProfiles if the new profile offers
// everything that the pools use.
func (r *request) profileChange() field.ErrorList {
	if r.oldProfile == nil {
		return nil
	}
	if r.oldProfile.Parent == r.profile.Parent {
		return offer.InUse(r.shoot, r.old, r.profile.Spec)
	}
	return field.ErrorList{field.Forbidden(specPath.Child("cloudProfile"),
		fmt.Sprintf("the Shoot is made from CloudProfile %q and can change only to NamespacedCloudProfiles of it",
			r.oldProfile.Parent))}
}

func (r *request) providerOfCredentials() field.ErrorList {
	given := r.shoot.Spec.Provider.Type
	if r.bindingProvider == "" || slices.Contains(strings.Split(r.bindingProvider, ","), given) {
		return nil
	}
	return field.ErrorList{
		field.Invalid(specPath.Child("provider", "type"), given,
			fmt.Sprintf("the credentials binding is for provider type %q", r.bindingProvider)),
	}
}

// networks checks that the address ranges of the Shoot are disjoint and, if it is being scheduled, that they suit the
// Seed.
func (r *request) networks() field.ErrorList {
	networking := r.shoot.Spec.Networking
	if networking == nil {
		return nil
	}
	path := specPath.Child("networking")
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
	var inUse *corev1beta1.NetworkingStatus
	if r.old != nil {
		inUse = r.old.Status.Networking
	}
	for _, conflict := range corev1beta1.NetworkConflicts(r.shoot, inUse, &r.seed.Spec.Networks) {
		errs = append(errs, field.Invalid(path.Child(conflict.Field), conflict.Range,
			fmt.Sprintf("must not overlap %s (Seed %q)", conflict.With, r.seed.Name)))
	}
	return errs
}
