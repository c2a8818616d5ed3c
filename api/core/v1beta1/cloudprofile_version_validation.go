package v1beta1

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// offeredVersion is the form of a Kubernetes version of a profile.
var offeredVersion = regexp.MustCompile(`^([0-9]+\.){2}[0-9]+$`)

// kubernetesVersions checks the offered Kubernetes versions of a CloudProfile.
func (v CloudProfileValidation) kubernetesVersions(versions []ExpirableVersion, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must offer at least one version")}
	}
	errs := v.kubernetesVersionList(versions, path)
	errs = append(errs, validateHighestVersion(versions)...)
	return append(errs, v.oneSupportedPerMinor(len(versions), func(i int) *ExpirableVersion { return &versions[i] },
		path)...)
}

// kubernetesVersionList checks each version by itself.
func (v CloudProfileValidation) kubernetesVersionList(versions []ExpirableVersion, path *field.Path) field.ErrorList {
	errs := validateUnique(versions, path, func(e *ExpirableVersion) string { return e.Version }, child("version"))
	for i := range versions {
		if !offeredVersion.MatchString(versions[i].Version) {
			errs = append(errs, field.Invalid(path.Index(i), versions[i].Version, "must have the form 1.36.3"))
		}
		errs = append(errs, v.expirableVersion(&versions[i], path.Index(i))...)
	}
	return errs
}

// validateHighestVersion requires that there is always a version to update to.
func validateHighestVersion(versions []ExpirableVersion) field.ErrorList {
	var highest *ExpirableVersion
	for i := range versions {
		if v := parseVersion(versions[i].Version); v != nil &&
			(highest == nil || v.GreaterThan(parseVersion(highest.Version))) {
			highest = &versions[i]
		}
	}
	if highest == nil {
		return nil
	}
	var errs field.ErrorList
	if highest.ExpirationDate != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "kubernetes", "versions[]", "expirationDate"),
			highest.ExpirationDate.UTC().Format(time.RFC3339),
			"the highest version, "+highest.Version+", must not expire"))
	}
	if stages := highest.Lifecycle; len(stages) > 0 && stages[len(stages)-1].Classification == ClassificationExpired {
		errs = append(errs, field.Invalid(field.NewPath("spec", "kubernetes", "versions[]", "lifecycle"), highest.Version,
			"the highest version must not expire"))
	}
	return errs
}

// lifecycleOrder lists the stages in the order in which they follow each other.
var lifecycleOrder = []VersionClassification{
	ClassificationUnavailable, ClassificationPreview, ClassificationSupported, ClassificationDeprecated,
	ClassificationExpired,
}

func (v CloudProfileValidation) expirableVersion(version *ExpirableVersion, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if class := version.Classification; class != nil {
		if *class == ClassificationExpired {
			errs = append(errs, field.Forbidden(path.Child("classification"), "is derived from expirationDate; set that instead"))
		} else {
			errs = append(errs, validateEnum(*class, path.Child("classification"), ClassificationPreview,
				ClassificationSupported, ClassificationDeprecated)...)
		}
	}
	if len(version.Lifecycle) == 0 {
		return errs
	}
	if !v.Features.VersionClassificationLifecycle {
		return append(errs, field.Forbidden(path.Child("lifecycle"), "lifecycles are switched off in this landscape"))
	}
	if version.Classification != nil || version.ExpirationDate != nil {
		errs = append(errs, field.Forbidden(path,
			"lifecycle replaces classification and expirationDate; they cannot be given together"))
	}
	return append(errs, validateLifecycle(version.Lifecycle, path.Child("lifecycle"))...)
}

func validateLifecycle(stages []LifecycleStage, path *field.Path) field.ErrorList {
	errs := validateUnique(stages, path, func(s *LifecycleStage) VersionClassification { return s.Classification },
		child("classification"))
	for i, stage := range stages {
		path := path.Index(i)
		errs = append(errs, validateEnum(stage.Classification, path.Child("classification"), lifecycleOrder...)...)
		if i == 0 {
			continue
		}
		before := stages[i-1]
		if rank := slices.Index(lifecycleOrder, stage.Classification); rank >= 0 &&
			rank < slices.Index(lifecycleOrder, before.Classification) {
			errs = append(errs, field.Invalid(path.Child("classification"), stage.Classification, "cannot follow "+
				string(before.Classification)))
		}
		switch {
		case stage.StartTime == nil:
			errs = append(errs, field.Required(path.Child("startTime"), "only the first stage may leave it out"))
		case before.StartTime != nil && !stage.StartTime.After(before.StartTime.Time):
			errs = append(errs, field.Invalid(path.Child("startTime"), stage.StartTime.UTC().Format(time.RFC3339),
				"must be after the start of the stage before"))
		}
	}
	return errs
}

// classAt returns the class of a version; an unclassified one is offered like a supported one.
func classAt(version *ExpirableVersion, now time.Time) VersionClassification {
	if len(version.Lifecycle) > 0 {
		class := ClassificationUnavailable
		for _, stage := range version.Lifecycle {
			if stage.StartTime == nil || stage.StartTime.Time.Before(now) {
				class = stage.Classification
			}
		}
		return class
	}
	switch {
	case expired(version, now):
		return ClassificationExpired
	case version.Classification != nil:
		return *version.Classification
	default:
		return ClassificationSupported
	}
}

func expired(version *ExpirableVersion, now time.Time) bool {
	return version.ExpirationDate != nil && version.ExpirationDate.Time.Before(now)
}

// oneSupportedPerMinor keeps it clear what the supported version of a minor is. Versions that have expired and those
// without a classification do not count.
func (v CloudProfileValidation) oneSupportedPerMinor(
	n int, at func(int) *ExpirableVersion, path *field.Path,
) field.ErrorList {
	byMinor := map[[2]uint64][]int{}
	for i := range n {
		version := at(i)
		parsed := parseVersion(version.Version)
		if parsed == nil || deref(version.Classification) != ClassificationSupported || expired(version, v.Now) ||
			v.Now.IsZero() && version.ExpirationDate != nil { // It may have expired.
			continue
		}
		minor := [2]uint64{parsed.Major(), parsed.Minor()}
		byMinor[minor] = append(byMinor[minor], i)
	}
	var errs field.ErrorList
	for i := range n {
		parsed := parseVersion(at(i).Version)
		if parsed == nil {
			continue
		}
		if same := byMinor[[2]uint64{parsed.Major(), parsed.Minor()}]; len(same) > 1 && slices.Contains(same, i) {
			errs = append(errs, field.Forbidden(path.Index(i), fmt.Sprintf(
				"only one version of %d.%d can be classified as supported; deprecate the others", parsed.Major(), parsed.Minor())))
		}
	}
	return errs
}

// newVersions refuses versions that are already expired when they are added. A version that is offered already may be
// expired at once.
func (v CloudProfileValidation) newVersions(spec, old *CloudProfileSpec) field.ErrorList {
	var errs field.ErrorList
	refuse := func(version *ExpirableVersion, path *field.Path) {
		switch {
		case expired(version, v.Now):
			errs = append(errs, field.Invalid(path.Child("expirationDate"), version.ExpirationDate.UTC().Format(time.RFC3339),
				"a new version cannot have expired already"))
		case len(version.Lifecycle) > 0 && classAt(version, v.Now) == ClassificationExpired:
			errs = append(errs, field.Invalid(path.Child("lifecycle"), version.Version,
				"a new version cannot have expired already"))
		}
	}
	for i := range spec.Kubernetes.Versions {
		version := &spec.Kubernetes.Versions[i]
		if kubernetesVersion(old, version.Version) == nil {
			refuse(version, specPath.Child("kubernetes", "versions").Index(i))
		}
	}
	for i := range spec.MachineImages {
		for j := range spec.MachineImages[i].Versions {
			version := &spec.MachineImages[i].Versions[j].ExpirableVersion
			if imageVersion(old, spec.MachineImages[i].Name, version.Version) == nil {
				refuse(version, specPath.Child("machineImages").Index(i).Child("versions").Index(j))
			}
		}
	}
	return errs
}

// notUnavailableAgain keeps versions offered that clusters may already use.
func (v CloudProfileValidation) notUnavailableAgain(spec, old *CloudProfileSpec) field.ErrorList {
	var errs field.ErrorList
	compare := func(version, before *ExpirableVersion, path *field.Path) {
		if before != nil && classAt(version, v.Now) == ClassificationUnavailable &&
			classAt(before, v.Now) != ClassificationUnavailable {
			errs = append(errs, field.Forbidden(path, "a version that has been available cannot become unavailable"))
		}
	}
	for i := range spec.Kubernetes.Versions {
		version := &spec.Kubernetes.Versions[i]
		compare(version, kubernetesVersion(old, version.Version), specPath.Child("kubernetes", "versions").Index(i))
	}
	for i := range spec.MachineImages {
		for j := range spec.MachineImages[i].Versions {
			version := &spec.MachineImages[i].Versions[j].ExpirableVersion
			compare(version, imageVersion(old, spec.MachineImages[i].Name, version.Version),
				specPath.Child("machineImages").Index(i).Child("versions").Index(j))
		}
	}
	return errs
}

func kubernetesVersion(spec *CloudProfileSpec, text string) *ExpirableVersion {
	for i := range spec.Kubernetes.Versions {
		if spec.Kubernetes.Versions[i].Version == text {
			return &spec.Kubernetes.Versions[i]
		}
	}
	return nil
}

func imageVersion(spec *CloudProfileSpec, name, text string) *ExpirableVersion {
	for i := range spec.MachineImages {
		if spec.MachineImages[i].Name != name {
			continue
		}
		for j := range spec.MachineImages[i].Versions {
			if spec.MachineImages[i].Versions[j].Version == text {
				return &spec.MachineImages[i].Versions[j].ExpirableVersion
			}
		}
	}
	return nil
}

// machineImages checks the offered machine images of a CloudProfile.
func (v CloudProfileValidation) machineImages(spec *CloudProfileSpec, path *field.Path) field.ErrorList {
	if len(spec.MachineImages) == 0 {
		return field.ErrorList{field.Required(path, "must offer at least one machine image")}
	}
	errs := validateUnique(spec.MachineImages, path, func(i *MachineImage) string { return i.Name }, itself)
	for i := range spec.MachineImages {
		image, path := &spec.MachineImages[i], path.Index(i)
		errs = append(errs, requiredName(image.Name, path.Child("name"))...)
		if deref(image.UpdateStrategy) == "" {
			errs = append(errs, field.Required(path.Child("updateStrategy"), "must be patch, minor or major"))
		} else {
			errs = append(errs, validateEnum(*image.UpdateStrategy, path.Child("updateStrategy"), UpdateStrategyPatch,
				UpdateStrategyMinor, UpdateStrategyMajor)...)
		}
		if len(image.Versions) == 0 {
			errs = append(errs, field.Required(path.Child("versions"), "must offer at least one version"))
		}
		errs = append(errs, v.imageVersions(image, path.Child("versions"))...)
		for j := range image.Versions {
			version, path := &image.Versions[j], path.Child("versions").Index(j)
			if len(version.CRI) == 0 {
				errs = append(errs, field.Required(path.Child("cri"), "must list containerd"))
			}
			if len(version.Architectures) == 0 && len(spec.MachineCapabilities) == 0 {
				errs = append(errs, field.Required(path.Child("architectures"), "must list amd64, arm64 or both"))
			}
		}
	}
	return errs
}

// imageVersions checks what holds for the images of all profiles.
func (v CloudProfileValidation) imageVersions(image *MachineImage, path *field.Path) field.ErrorList {
	versions := image.Versions
	errs := validateUnique(versions, path, func(m *MachineImageVersion) string { return m.Version }, child("version"))
	for i := range versions {
		version, path := &versions[i], path.Index(i)
		if _, err := semver.NewVersion(version.Version); err != nil {
			errs = append(errs, field.Invalid(path.Child("version"), version.Version, "must be a version such as 1.2.3"))
		}
		errs = append(errs, v.expirableVersion(&version.ExpirableVersion, path)...)
		errs = append(errs, validateUnique(version.CRI, path.Child("cri"), func(c *CRI) CRIName { return c.Name },
			child("name"))...)
		for j := range version.CRI {
			errs = append(errs, validateCRI(&version.CRI[j], path.Child("cri").Index(j))...)
		}
		errs = append(errs, validateUniqueStrings(version.Architectures, path.Child("architectures"))...)
		for j, architecture := range version.Architectures {
			errs = append(errs, validateEnum(architecture, path.Child("architectures").Index(j), ArchitectureAMD64,
				ArchitectureARM64)...)
		}
		if constraint := version.KubeletVersionConstraint; constraint != nil {
			if _, err := semver.NewConstraint(*constraint); err != nil {
				errs = append(errs, field.Invalid(path.Child("kubeletVersionConstraint"), *constraint,
					`must be a version constraint such as ">= 1.26"`))
			}
		}
		if updates := version.InPlaceUpdates; updates != nil && updates.MinVersionForUpdate != nil {
			if _, err := semver.NewVersion(*updates.MinVersionForUpdate); err != nil {
				errs = append(errs, field.Invalid(path.Child("inPlaceUpdates", "minVersionForInPlaceUpdate"),
					*updates.MinVersionForUpdate, "must be a version such as 1.2.3"))
			}
		}
	}
	return append(errs, v.oneSupportedPerMinor(len(versions),
		func(i int) *ExpirableVersion { return &versions[i].ExpirableVersion }, path)...)
}
