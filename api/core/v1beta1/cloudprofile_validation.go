package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateCloudProfile checks a new CloudProfile.
func ValidateCloudProfile(profile *CloudProfile) field.ErrorList {
	errs := validateMeta(&profile.ObjectMeta, false, nameIsSubdomain)
	path := field.NewPath("spec")
	errs = append(errs, validateRequired(profile.Spec.Type, path.Child("type"))...)
	if len(profile.Spec.Kubernetes.Versions) == 0 {
		errs = append(errs, field.Required(path.Child("kubernetes", "versions"), "must offer a version"))
	}
	if len(profile.Spec.MachineImages) == 0 {
		errs = append(errs, field.Required(path.Child("machineImages"), "must offer an image"))
	}
	if len(profile.Spec.MachineTypes) == 0 {
		errs = append(errs, field.Required(path.Child("machineTypes"), "must offer a type"))
	}
	if len(profile.Spec.Regions) == 0 {
		errs = append(errs, field.Required(path.Child("regions"), "must offer a region"))
	}
	return errs
}

// ValidateCloudProfileUpdate checks a changed CloudProfile.
func ValidateCloudProfileUpdate(profile, old *CloudProfile) field.ErrorList {
	return append(validateMetaUpdate(&profile.ObjectMeta, &old.ObjectMeta), ValidateCloudProfile(profile)...)
}

// ValidateNamespacedCloudProfile checks a new NamespacedCloudProfile.
func ValidateNamespacedCloudProfile(profile *NamespacedCloudProfile) field.ErrorList {
	return validateMeta(&profile.ObjectMeta, true, nameIsSubdomain)
}

// ValidateNamespacedCloudProfileUpdate checks a changed NamespacedCloudProfile.
func ValidateNamespacedCloudProfileUpdate(profile, old *NamespacedCloudProfile) field.ErrorList {
	errs := validateMetaUpdate(&profile.ObjectMeta, &old.ObjectMeta)
	return append(errs, validateImmutable(profile.Spec.Parent, old.Spec.Parent, field.NewPath("spec", "parent"))...)
}
