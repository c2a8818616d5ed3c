package offer

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var specPath = field.NewPath("spec")

// check compares a Shoot with what a profile offers. old is the stored Shoot, nil on creation.
type check struct {
	shoot, old *corev1beta1.Shoot
	profile    *corev1beta1.CloudProfileSpec
}

// Validate lists what a completed Shoot specifies, but its profile does not offer. Only what is new or changed is
// checked, so that a Shoot stays editable after its profile has changed.
func Validate(shoot, old *corev1beta1.Shoot, profile *corev1beta1.CloudProfileSpec) field.ErrorList {
	c := &check{shoot, old, profile}
	errs := c.providerType()
	errs = append(errs, c.region()...)
	errs = append(errs, c.controlPlaneZones()...)
	errs = append(errs, c.rawConfigs()...)
	total := int64(0)
	for i := range shoot.Spec.Provider.Workers {
		worker := &shoot.Spec.Provider.Workers[i]
		total += int64(worker.Minimum)
		errs = append(errs, c.worker(worker, poolOf(old, worker.Name), specPath.Child("provider", "workers").Index(i))...)
	}
	if limits := profile.Limits; limits != nil && limits.MaxNodesTotal != nil && total > int64(*limits.MaxNodesTotal) {
		errs = append(errs, field.Forbidden(specPath.Child("provider", "workers"),
			fmt.Sprintf("the pools have at least %d nodes together, the cloud profile allows %d", total, *limits.MaxNodesTotal)))
	}
	return errs
}

// notOffered names a value and what there is instead. none describes where there is nothing at all.
func notOffered(path *field.Path, value string, offered []string, none string) *field.Error {
	err := field.NotSupported(path, value, offered)
	if len(offered) == 0 {
		err.Detail = none
	}
	return err
}

func (c *check) providerType() field.ErrorList {
	given := c.shoot.Spec.Provider.Type
	if given == c.profile.Type {
		return nil
	}
	return field.ErrorList{
		field.Invalid(specPath.Child("provider", "type"), given,
			fmt.Sprintf("the cloud profile is for provider type %q", c.profile.Type)),
	}
}

// controlPlaneZones checks that a Shoot may choose zones for its control plane.
func (c *check) controlPlaneZones() field.ErrorList {
	offer := c.profile.ControlPlane
	if offer != nil && ptr.Deref(offer.AllowZonePinning, false) ||
		slices.Equal(controlPlaneZonesOf(c.shoot), controlPlaneZonesOf(c.old)) {
		return nil
	}
	return field.ErrorList{
		field.Forbidden(specPath.Child("controlPlane", "zones"),
			"the cloud profile does not allow to choose zones (spec.controlPlane.allowZonePinning)"),
	}
}

func controlPlaneZonesOf(shoot *corev1beta1.Shoot) []string {
	if shoot == nil || shoot.Spec.ControlPlane == nil {
		return nil
	}
	return shoot.Spec.ControlPlane.Zones
}

func poolOf(shoot *corev1beta1.Shoot, name string) *corev1beta1.Worker {
	if shoot == nil {
		return nil
	}
	for i := range shoot.Spec.Provider.Workers {
		if shoot.Spec.Provider.Workers[i].Name == name {
			return &shoot.Spec.Provider.Workers[i]
		}
	}
	return nil
}

func (c *check) regionOffer() *corev1beta1.Region {
	for i := range c.profile.Regions {
		if c.profile.Regions[i].Name == c.shoot.Spec.Region {
			return &c.profile.Regions[i]
		}
	}
	return nil
}

func (c *check) region() field.ErrorList {
	if c.old != nil && equality.Semantic.DeepEqual(c.shoot.Spec.AccessRestrictions, c.old.Spec.AccessRestrictions) {
		return nil // The region itself is immutable; it may have left the profile meanwhile.
	}
	offer := c.regionOffer()
	if offer == nil {
		var names []string
		for _, region := range c.profile.Regions {
			names = append(names, region.Name)
		}
		return field.ErrorList{
			notOffered(specPath.Child("region"), c.shoot.Spec.Region, names, "the cloud profile offers no regions"),
		}
	}
	var offered []string
	for _, restriction := range offer.AccessRestrictions {
		offered = append(offered, restriction.Name)
	}
	var errs field.ErrorList
	for i, restriction := range c.shoot.Spec.AccessRestrictions {
		if !slices.Contains(offered, restriction.Name) {
			errs = append(errs, notOffered(specPath.Child("accessRestrictions").Index(i).Child("name"), restriction.Name,
				offered,
				fmt.Sprintf("region %q offers no access restrictions", offer.Name)))
		}
	}
	return errs
}
