package offer

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// InUse names what the pools of a Shoot have from before and the profile that it changes to does not offer.
func InUse(shoot, old *corev1beta1.Shoot, profile *corev1beta1.CloudProfileSpec) field.ErrorList {
	c := &check{shoot, old, profile}
	var errs field.ErrorList
	for i := range shoot.Spec.Provider.Workers {
		worker, path := &shoot.Spec.Provider.Workers[i], specPath.Child("provider", "workers").Index(i)
		if poolOf(old, worker.Name) == nil {
			continue // Checked as a new pool.
		}
		missing := func(path *field.Path, what string) {
			errs = append(errs, field.Invalid(path, what, fmt.Sprintf("is in use, but %s %q does not offer it",
				shoot.Spec.CloudProfile.Kind, shoot.Spec.CloudProfile.Name)))
		}
		if c.machineTypeOffer(worker.Machine.Type) == nil {
			missing(path.Child("machine", "type"), worker.Machine.Type)
		}
		if image := worker.Machine.Image; image != nil && image.Version != nil && !c.offersImage(image.Name, *image.Version) {
			missing(path.Child("machine", "image"), image.Name+":"+*image.Version)
		}
		if volume := worker.Volume; volume != nil && volume.Type != nil && c.volumeTypeOffer(*volume.Type) == nil {
			missing(path.Child("volume", "type"), *volume.Type)
		}
		for j, volume := range worker.DataVolumes {
			if volume.Type != nil && c.volumeTypeOffer(*volume.Type) == nil {
				missing(path.Child("dataVolumes").Index(j).Child("type"), *volume.Type)
			}
		}
	}
	return errs
}

func (c *check) offersImage(name, version string) bool {
	for i := range c.profile.MachineImages {
		image := &c.profile.MachineImages[i]
		if image.Name == name {
			return slices.ContainsFunc(image.Versions,
				func(v corev1beta1.MachineImageVersion) bool { return v.Version == version })
		}
	}
	return false
}
