package v1beta1

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CloudProfileValidation holds the inputs of the validation of CloudProfiles other than the objects.
//
// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type CloudProfileValidation struct {
	Features Features
	// Now decides which versions have expired. Rules that depend on it are left out while it is zero.
	Now time.Time
}

// ValidateCloudProfile checks a new CloudProfile under the default features, without the rules that depend on time.
func ValidateCloudProfile(profile *CloudProfile) field.ErrorList {
	return CloudProfileValidation{Features: DefaultFeatures()}.Create(profile)
}

// ValidateCloudProfileUpdate checks a changed CloudProfile under the default features, without the rules that depend
// on time.
func ValidateCloudProfileUpdate(profile, old *CloudProfile) field.ErrorList {
	return CloudProfileValidation{Features: DefaultFeatures()}.Update(profile, old)
}

// Create checks a new CloudProfile.
func (v CloudProfileValidation) Create(profile *CloudProfile) field.ErrorList {
	errs := validateMeta(&profile.ObjectMeta, false, nameIsSubdomain)
	errs = append(errs, v.spec(&profile.Spec)...)
	if !v.Now.IsZero() && !isTrue(profile.Annotations, AnnotationAllowExpiredVersions) {
		errs = append(errs, v.newVersions(&profile.Spec, &CloudProfileSpec{})...)
	}
	return errs
}

// Update checks a changed CloudProfile.
func (v CloudProfileValidation) Update(profile, old *CloudProfile) field.ErrorList {
	errs := validateMetaUpdate(&profile.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, v.spec(&profile.Spec)...)
	errs = append(errs, validateLimitsUpdate(profile.Spec.Limits, old.Spec.Limits)...)
	if !v.Now.IsZero() {
		errs = append(errs, v.newVersions(&profile.Spec, &old.Spec)...)
		errs = append(errs, v.notUnavailableAgain(&profile.Spec, &old.Spec)...)
	}
	return errs
}

func (v CloudProfileValidation) spec(spec *CloudProfileSpec) field.ErrorList {
	errs := validateRequired(spec.Type, specPath.Child("type"))
	errs = append(errs, v.kubernetesVersions(spec.Kubernetes.Versions, specPath.Child("kubernetes", "versions"))...)
	errs = append(errs, v.machineImages(spec, specPath.Child("machineImages"))...)
	if len(spec.MachineTypes) == 0 {
		errs = append(errs, field.Required(specPath.Child("machineTypes"), "must offer at least one machine type"))
	}
	errs = append(errs, validateMachineTypes(spec.MachineTypes, len(spec.MachineCapabilities) == 0,
		specPath.Child("machineTypes"))...)
	errs = append(errs, validateVolumeTypes(spec.VolumeTypes, specPath.Child("volumeTypes"))...)
	errs = append(errs, validateRegions(spec.Regions, specPath.Child("regions"))...)
	errs = append(errs, validateSeedSelector(spec.SeedSelector, specPath.Child("seedSelector"))...)
	errs = append(errs, validateCABundle(spec.CABundle, specPath.Child("caBundle"))...)
	errs = append(errs, validateLimits(spec.Limits)...)
	errs = append(errs, v.capabilities(spec)...)
	return append(errs, v.bastion(spec, specPath.Child("bastion"))...)
}

// requiredName is for names that are put into labels.
func requiredName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "must be given")}
	}
	if strings.Contains(name, "/") {
		return field.ErrorList{field.Invalid(path, name, "must not have a prefix that ends with a slash")}
	}
	return invalid(name, path, validation.IsQualifiedName(name))
}

func validateMachineTypes(types []MachineType, needArchitecture bool, path *field.Path) field.ErrorList {
	errs := validateUnique(types, path, func(t *MachineType) string { return t.Name }, child("name"))
	for i := range types {
		machineType, path := &types[i], path.Index(i)
		errs = append(errs, requiredName(machineType.Name, path.Child("name"))...)
		errs = append(errs, notNegative(path, []namedQuantity{
			{"cpu", &machineType.CPU}, {"gpu", &machineType.GPU}, {"memory", &machineType.Memory},
		})...)
		if needArchitecture && deref(machineType.Architecture) == "" {
			errs = append(errs, field.Required(path.Child("architecture"), "must be amd64 or arm64"))
		} else if deref(machineType.Architecture) != "" {
			errs = append(errs, validateEnum(*machineType.Architecture, path.Child("architecture"), ArchitectureAMD64,
				ArchitectureARM64)...)
		}
		if storage := machineType.Storage; storage != nil {
			path := path.Child("storage")
			if (storage.StorageSize == nil) == (storage.MinSize == nil) {
				errs = append(errs, field.Invalid(path, storage.Type, "exactly one of size and minSize must be given"))
			}
			errs = append(errs, positive(storage.StorageSize, path.Child("size"))...)
			errs = append(errs, positive(storage.MinSize, path.Child("minSize"))...)
		}
		if settings := machineType.MachineControllerManager; settings != nil {
			errs = append(errs, durationsNotNegative(path.Child("machineControllerManager"), []namedDuration{
				{"machineCreationTimeout", settings.MachineCreationTimeout},
			})...)
		}
	}
	return errs
}

func positive(quantity *resource.Quantity, path *field.Path) field.ErrorList {
	if quantity == nil || quantity.Sign() > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, quantity.String(), "must be more than 0")}
}

func validateVolumeTypes(types []VolumeType, path *field.Path) field.ErrorList {
	errs := validateUnique(types, path, func(t *VolumeType) string { return t.Name }, child("name"))
	for i := range types {
		volumeType, path := &types[i], path.Index(i)
		errs = append(errs, requiredName(volumeType.Name, path.Child("name"))...)
		errs = append(errs, requiredName(volumeType.Class, path.Child("class"))...)
		errs = append(errs, notNegative(path, []namedQuantity{{"minSize", volumeType.MinSize}})...)
	}
	return errs
}

func validateRegions(regions []Region, path *field.Path) field.ErrorList {
	if len(regions) == 0 {
		return field.ErrorList{field.Required(path, "must offer at least one region")}
	}
	errs := validateUnique(regions, path, func(r *Region) string { return r.Name }, child("name"))
	for i := range regions {
		region, path := &regions[i], path.Index(i)
		errs = append(errs, validateRequired(region.Name, path.Child("name"))...)
		errs = append(errs, validateUnique(region.Zones, path.Child("zones"),
			func(z *AvailabilityZone) string { return z.Name }, child("name"))...)
		for j, zone := range region.Zones {
			errs = append(errs, validateRequired(zone.Name, path.Child("zones").Index(j).Child("name"))...)
		}
		errs = append(errs, metav1validation.ValidateLabels(region.Labels, path.Child("labels"))...)
		errs = append(errs, validateAccessRestrictions(region.AccessRestrictions, path.Child("accessRestrictions"))...)
	}
	return errs
}

func validateAccessRestrictions(restrictions []AccessRestriction, path *field.Path) field.ErrorList {
	errs := validateUnique(restrictions, path, func(r *AccessRestriction) string { return r.Name }, child("name"))
	for i, restriction := range restrictions {
		errs = append(errs, validateRequired(restriction.Name, path.Index(i).Child("name"))...)
	}
	return errs
}

func validateLimits(limits *Limits) field.ErrorList {
	if limits == nil || limits.MaxNodesTotal == nil || *limits.MaxNodesTotal > 0 {
		return nil
	}
	return field.ErrorList{
		field.Invalid(specPath.Child("limits", "maxNodesTotal"), *limits.MaxNodesTotal, "must be more than 0"),
	}
}

// validateLimitsUpdate keeps a limit from shrinking below what clusters may already have.
func validateLimitsUpdate(limits, old *Limits) field.ErrorList {
	if limits == nil || old == nil || limits.MaxNodesTotal == nil || old.MaxNodesTotal == nil ||
		*limits.MaxNodesTotal >= *old.MaxNodesTotal {
		return nil
	}
	return field.ErrorList{
		field.Invalid(specPath.Child("limits", "maxNodesTotal"), *limits.MaxNodesTotal, "must not shrink"),
	}
}

// bastion needs a machine type or an image of the profile, or both, and they must fit.
func (v CloudProfileValidation) bastion(spec *CloudProfileSpec, path *field.Path) field.ErrorList {
	bastion := spec.Bastion
	if bastion == nil {
		return nil
	}
	if bastion.MachineType == nil && bastion.MachineImage == nil {
		return field.ErrorList{field.Invalid(path, "", "machineType or machineImage must be given")}
	}
	var errs field.ErrorList
	architecture := ""
	if want := bastion.MachineType; want != nil {
		found := false
		for i := range spec.MachineTypes {
			if machineType := &spec.MachineTypes[i]; machineType.Name == want.Name {
				found, architecture = true, deref(machineType.Architecture)
			}
		}
		if !found {
			errs = append(errs, field.Invalid(path.Child("machineType", "name"), want.Name,
				"must be a machine type of the profile"))
		}
	}
	if want := bastion.MachineImage; want != nil {
		errs = append(errs, v.bastionImage(spec, want, architecture, path.Child("machineImage"))...)
	}
	return errs
}

func (v CloudProfileValidation) bastionImage(
	spec *CloudProfileSpec, want *BastionMachineImage, architecture string, path *field.Path,
) field.ErrorList {
	for i := range spec.MachineImages {
		image := &spec.MachineImages[i]
		if image.Name != want.Name {
			continue
		}
		for j := range image.Versions {
			version := &image.Versions[j]
			if (want.Version == nil || *want.Version == version.Version) && hasArchitecture(version, architecture) &&
				(v.Now.IsZero() || classAt(&version.ExpirableVersion, v.Now) == ClassificationSupported) {
				return nil
			}
		}
		return field.ErrorList{field.Invalid(path.Child("version"), deref(want.Version),
			"the image must have a supported version for the bastion's architecture")}
	}
	return field.ErrorList{field.Invalid(path.Child("name"), want.Name, "must be a machine image of the profile")}
}

func hasArchitecture(version *MachineImageVersion, architecture string) bool {
	if architecture == "" || len(version.Architectures) == 0 {
		return true
	}
	return containsAll(version.Architectures, []string{architecture})
}
