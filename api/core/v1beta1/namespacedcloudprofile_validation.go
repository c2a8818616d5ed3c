package v1beta1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateNamespacedCloudProfile checks a new NamespacedCloudProfile under the default features, without the rules that
// depend on time.
func ValidateNamespacedCloudProfile(profile *NamespacedCloudProfile) field.ErrorList {
	return CloudProfileValidation{Features: DefaultFeatures()}.CreateNamespaced(profile)
}

// ValidateNamespacedCloudProfileUpdate checks a changed NamespacedCloudProfile under the default features, without the
// rules that depend on time.
func ValidateNamespacedCloudProfileUpdate(profile, old *NamespacedCloudProfile) field.ErrorList {
	return CloudProfileValidation{Features: DefaultFeatures()}.UpdateNamespaced(profile, old)
}

// CreateNamespaced checks a new NamespacedCloudProfile. What depends on the parent is checked by admission.
func (v CloudProfileValidation) CreateNamespaced(profile *NamespacedCloudProfile) field.ErrorList {
	errs := validateMeta(&profile.ObjectMeta, true, nameIsSubdomain)
	return append(errs, v.namespacedSpec(&profile.Spec)...)
}

// UpdateNamespaced checks a changed NamespacedCloudProfile.
func (v CloudProfileValidation) UpdateNamespaced(profile, old *NamespacedCloudProfile) field.ErrorList {
	errs := validateMetaUpdate(&profile.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateImmutable(profile.Spec.Parent, old.Spec.Parent, specPath.Child("parent"))...)
	errs = append(errs, v.namespacedSpec(&profile.Spec)...)
	if !v.Now.IsZero() {
		errs = append(errs, v.newExpirations(&profile.Spec, &old.Spec)...)
	}
	return errs
}

func (v CloudProfileValidation) namespacedSpec(spec *NamespacedCloudProfileSpec) field.ErrorList {
	errs := validateEnum(spec.Parent.Kind, specPath.Child("parent", "kind"), CloudProfileKind)
	errs = append(errs, validateRequired(spec.Parent.Name, specPath.Child("parent", "name"))...)
	if spec.Kubernetes != nil {
		path := specPath.Child("kubernetes", "versions")
		errs = append(errs, v.kubernetesVersionList(spec.Kubernetes.Versions, path)...)
		for i, version := range spec.Kubernetes.Versions {
			if version.Classification != nil {
				errs = append(errs, field.Forbidden(path.Index(i).Child("classification"), "is inherited from the parent"))
			}
		}
	}
	path := specPath.Child("machineImages")
	errs = append(errs, validateUnique(spec.MachineImages, path, func(i *MachineImage) string { return i.Name },
		itself)...)
	for i := range spec.MachineImages {
		image, path := &spec.MachineImages[i], path.Index(i)
		errs = append(errs, requiredName(image.Name, path.Child("name"))...)
		errs = append(errs, validateOptionalEnum(image.UpdateStrategy, path.Child("updateStrategy"), UpdateStrategyPatch,
			UpdateStrategyMinor, UpdateStrategyMajor)...)
		errs = append(errs, v.imageVersions(image, path.Child("versions"))...)
	}
	// Whether the architecture is needed depends on the capabilities of the parent.
	errs = append(errs, validateMachineTypes(spec.MachineTypes, false, specPath.Child("machineTypes"))...)
	errs = append(errs, validateVolumeTypes(spec.VolumeTypes, specPath.Child("volumeTypes"))...)
	errs = append(errs, validateCABundle(spec.CABundle, specPath.Child("caBundle"))...)
	return append(errs, validateLimits(spec.Limits)...)
}

// newExpirations refuses new dates in the past. Dates that have passed since they were set may stay.
func (v CloudProfileValidation) newExpirations(spec, old *NamespacedCloudProfileSpec) field.ErrorList {
	var errs field.ErrorList
	before := &CloudProfileSpec{MachineImages: old.MachineImages}
	if old.Kubernetes != nil {
		before.Kubernetes = *old.Kubernetes
	}
	compare := func(version, before *ExpirableVersion, path *field.Path) {
		if expired(version, v.Now) && (before == nil || !version.ExpirationDate.Equal(before.ExpirationDate)) {
			errs = append(errs, field.Invalid(path.Child("expirationDate"), version.ExpirationDate.UTC().Format(time.RFC3339),
				"must not be in the past"))
		}
	}
	if spec.Kubernetes != nil {
		for i := range spec.Kubernetes.Versions {
			version := &spec.Kubernetes.Versions[i]
			compare(version, kubernetesVersion(before, version.Version), specPath.Child("kubernetes", "versions").Index(i))
		}
	}
	for i := range spec.MachineImages {
		for j := range spec.MachineImages[i].Versions {
			version := &spec.MachineImages[i].Versions[j].ExpirableVersion
			compare(version, imageVersion(before, spec.MachineImages[i].Name, version.Version),
				specPath.Child("machineImages").Index(i).Child("versions").Index(j))
		}
	}
	return errs
}
