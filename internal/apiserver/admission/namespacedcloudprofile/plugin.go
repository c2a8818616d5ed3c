// Package namespacedcloudprofile checks that a project's changes fit the CloudProfile they are made to, and that
// nothing in use is removed.
package namespacedcloudprofile

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/cloudprofile"
)

// Name of the plugin.
const Name = "NamespacedCloudProfileValidator"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

var specPath = field.NewPath("spec")

// Validate compares a profile with its parent.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "namespacedcloudprofiles"); !concerns {
		return err
	}
	profile, ok := a.GetObject().(*corev1beta1.NamespacedCloudProfile)
	if !ok || profile.DeletionTimestamp != nil {
		return nil
	}
	if old, ok := a.GetOldObject().(*corev1beta1.NamespacedCloudProfile); ok && a.GetOperation() == admission.Update &&
		equality.Semantic.DeepEqual(profile.Spec, old.Spec) {
		return nil
	}
	parent := &corev1beta1.CloudProfile{}
	if err := p.Get(ctx, "", profile.Spec.Parent.Name, parent); err != nil {
		if apierrors.IsNotFound(err) {
			return apierrors.NewBadRequest(fmt.Sprintf("spec.parent.name: parent CloudProfile %q does not exist; %s",
				profile.Spec.Parent.Name, p.OfferedProfiles(ctx, "", corev1beta1.CloudProfileKind)))
		}
		return apierrors.NewInternalError(err)
	}
	errs := overrides(&profile.Spec, &parent.Spec)
	if len(errs) == 0 {
		errs = p.merged(profile, parent)
	}
	if a.GetOperation() == admission.Create {
		errs = append(errs, bornExpired(profile, &parent.Spec, p.Clock.Now())...)
	}
	if old, ok := a.GetOldObject().(*corev1beta1.NamespacedCloudProfile); ok && a.GetOperation() == admission.Update &&
		len(errs) == 0 {
		shoots := &corev1beta1.ShootList{}
		if err := p.Live.List(ctx, shoots, client.InNamespace(profile.Namespace),
			client.MatchingFields{
				"spec.cloudProfile.Name": profile.Name, "spec.cloudProfile.Kind": corev1beta1.NamespacedCloudProfileKind,
			}); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("list Shoots of NamespacedCloudProfile %q: %w", profile.Name, err))
		}
		before := cloudprofile.Merge(&parent.Spec, &old.Spec)
		after := cloudprofile.Merge(&parent.Spec, &profile.Spec)
		errs = lost(&before, &after, shoots.Items)
		errs = append(errs, unexpired(&profile.Spec, &old.Spec, &parent.Spec, shoots.Items, p.Clock.Now())...)
		errs = append(errs, updateStrategies(&profile.Spec, &old.Spec, &parent.Spec)...)
	}
	return hortusadmission.Forbid(a, errs)
}

// overrides checks that a project changes nothing of the parent's versions but their expiration dates.
func overrides(spec *corev1beta1.NamespacedCloudProfileSpec, parent *corev1beta1.CloudProfileSpec) field.ErrorList {
	var errs field.ErrorList
	offered := map[string]bool{}
	for _, version := range parent.Kubernetes.Versions {
		offered[version.Version] = true
	}
	if spec.Kubernetes != nil {
		for i, version := range spec.Kubernetes.Versions {
			path := specPath.Child("kubernetes", "versions").Index(i)
			if !offered[version.Version] {
				errs = append(errs, field.Invalid(path.Child("version"), version.Version,
					fmt.Sprintf("not offered by the parent (available: %s)", available(slices.Collect(maps.Keys(offered))))))
			}
			if version.ExpirationDate == nil {
				errs = append(errs, field.Invalid(path.Child("expirationDate"), nil,
					"is the only field that can be changed, and is required"))
			}
		}
	}
	for i, image := range spec.MachineImages {
		errs = append(errs, imageOverrides(&image, parent, specPath.Child("machineImages").Index(i))...)
	}
	names := map[string]bool{}
	for _, machine := range parent.MachineTypes {
		names[machine.Name] = true
	}
	for i, machine := range spec.MachineTypes {
		if names[machine.Name] {
			errs = append(errs, field.Invalid(specPath.Child("machineTypes").Index(i), machine.Name,
				"the parent offers it already; leave it out"))
		}
	}
	volumes := map[string]bool{}
	for _, volume := range parent.VolumeTypes {
		volumes[volume.Name] = true
	}
	for i, volume := range spec.VolumeTypes {
		if volumes[volume.Name] {
			errs = append(errs, field.Invalid(specPath.Child("volumeTypes").Index(i), volume.Name,
				"the parent offers it already; leave it out"))
		}
	}
	return errs
}

// available lists the offered versions or types.
func available(offered []string) string {
	if len(offered) == 0 {
		return "none"
	}
	return hortusadmission.Named(offered)
}

func imageOverrides(
	image *corev1beta1.MachineImage, parent *corev1beta1.CloudProfileSpec, path *field.Path,
) field.ErrorList {
	offered := map[string]bool{}
	found := false
	for _, other := range parent.MachineImages {
		if other.Name == image.Name {
			found = true
			for _, version := range other.Versions {
				offered[version.Version] = true
			}
		}
	}
	if !found {
		return nil // An image that the project adds.
	}
	var errs field.ErrorList
	for j := range image.Versions {
		version, path := &image.Versions[j], path.Child("versions").Index(j)
		if !offered[version.Version] {
			continue // A version that the project adds.
		}
		if version.ExpirationDate == nil {
			errs = append(errs, field.Invalid(path.Child("expirationDate"), nil,
				"is the only field of the parent's version that can be changed, and is required"))
		}
		for _, part := range []struct {
			name  string
			given bool
		}{
			{"classification", version.Classification != nil}, {"cri", len(version.CRI) > 0},
			{"architectures", len(version.Architectures) > 0},
			{"capabilityFlavors", len(version.CapabilityFlavors) > 0},
			{"kubeletVersionConstraint", version.KubeletVersionConstraint != nil},
			{"inPlaceUpdates", version.InPlaceUpdates != nil},
		} {
			if part.given {
				errs = append(errs, field.Forbidden(path.Child(part.name), "belongs to the parent; leave it out"))
			}
		}
	}
	return errs
}

// bornExpired rejects versions added by the project that have already expired, as for new versions of a CloudProfile.
// Versions of the parent may expire earlier in the project; static validation rejects changed dates in the past.
func bornExpired(
	profile *corev1beta1.NamespacedCloudProfile, parent *corev1beta1.CloudProfileSpec, now time.Time,
) field.ErrorList {
	if allowed, _ := strconv.ParseBool(profile.Annotations[corev1beta1.AnnotationAllowExpiredVersions]); allowed {
		return nil
	}
	offered := map[string]bool{}
	for _, image := range parent.MachineImages {
		for _, version := range image.Versions {
			offered[image.Name+" "+version.Version] = true
		}
	}
	var errs field.ErrorList
	for i := range profile.Spec.MachineImages {
		image := &profile.Spec.MachineImages[i]
		for j := range image.Versions {
			version := &image.Versions[j].ExpirableVersion
			if !offered[image.Name+" "+version.Version] && cloudprofile.ClassAt(version, now) == cloudprofile.Expired {
				errs = append(errs, field.Invalid(specPath.Child("machineImages").Index(i).Child("versions").Index(j),
					version.Version, "a new version cannot have expired already; give it a later expirationDate, or leave it out"))
			}
		}
	}
	return errs
}

// merged checks that the parent with the changes is a valid profile.
func (p *plugin) merged(profile *corev1beta1.NamespacedCloudProfile, parent *corev1beta1.CloudProfile) field.ErrorList {
	whole := parent.DeepCopy()
	whole.Spec = cloudprofile.Merge(&parent.Spec, &profile.Spec)
	corev1beta1.SetDefaultsCloudProfile(whole)
	return corev1beta1.ValidateCloudProfile(whole)
}

// lost lists the Shoots that use an offer which an update removes.
func lost(before, after *corev1beta1.CloudProfileSpec, shoots []corev1beta1.Shoot) field.ErrorList {
	offered := func(spec *corev1beta1.CloudProfileSpec) map[string]bool {
		set := map[string]bool{}
		for _, version := range spec.Kubernetes.Versions {
			set["kubernetes "+version.Version] = true
		}
		for _, image := range spec.MachineImages {
			for _, version := range image.Versions {
				set["image "+image.Name+" "+version.Version] = true
			}
		}
		for _, machine := range spec.MachineTypes {
			set["machine type "+machine.Name] = true
		}
		return set
	}
	was, is := offered(before), offered(after)
	users := usersOf(shoots, func(used string) bool { return was[used] && !is[used] })
	var errs field.ErrorList
	for _, used := range slices.Sorted(maps.Keys(users)) {
		errs = append(errs, field.Forbidden(pathOf(used), fmt.Sprintf("%s is used by Shoots: %s", used,
			hortusadmission.Named(users[used]))))
	}
	if after.Limits == nil || after.Limits.MaxNodesTotal == nil {
		return errs
	}
	var larger []string
	for i := range shoots {
		minimum := int32(0)
		for _, worker := range shoots[i].Spec.Provider.Workers {
			minimum += worker.Minimum
		}
		if shoots[i].DeletionTimestamp == nil && minimum > *after.Limits.MaxNodesTotal {
			larger = append(larger, fmt.Sprintf("%s (%d)", shoots[i].Name, minimum))
		}
	}
	if len(larger) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("limits", "maxNodesTotal"), "Shoots have more nodes at least: "+
			hortusadmission.Named(larger)))
	}
	return errs
}

// unexpired lists the Shoots that use a version which expires because the update removes its later date.
func unexpired(
	spec, old *corev1beta1.NamespacedCloudProfileSpec, parent *corev1beta1.CloudProfileSpec, shoots []corev1beta1.Shoot,
	now time.Time,
) field.ErrorList {
	gone := overridden(old)
	for used := range overridden(spec) {
		delete(gone, used)
	}
	expired := map[string]bool{}
	mark := func(key string, version *corev1beta1.ExpirableVersion) {
		expired[key] = gone[key] && !cloudprofile.ClassAt(version, now).Active()
	}
	for i := range parent.Kubernetes.Versions {
		mark("kubernetes "+parent.Kubernetes.Versions[i].Version, &parent.Kubernetes.Versions[i])
	}
	for i := range parent.MachineImages {
		image := &parent.MachineImages[i]
		for j := range image.Versions {
			mark("image "+image.Name+" "+image.Versions[j].Version, &image.Versions[j].ExpirableVersion)
		}
	}
	users := usersOf(shoots, func(used string) bool { return expired[used] })
	var errs field.ErrorList
	for _, used := range slices.Sorted(maps.Keys(users)) {
		errs = append(errs, field.Forbidden(pathOf(used),
			fmt.Sprintf("%s has expired in the parent and is used by Shoots: %s; keep its expirationDate here", used,
				hortusadmission.Named(users[used]))))
	}
	return errs
}

// overridden returns the versions that a NamespacedCloudProfile lists.
func overridden(spec *corev1beta1.NamespacedCloudProfileSpec) map[string]bool {
	set := map[string]bool{}
	if spec.Kubernetes != nil {
		for _, version := range spec.Kubernetes.Versions {
			set["kubernetes "+version.Version] = true
		}
	}
	for _, image := range spec.MachineImages {
		for _, version := range image.Versions {
			set["image "+image.Name+" "+version.Version] = true
		}
	}
	return set
}

// updateStrategies rejects changing the update strategy of an image that the parent now has, too.
func updateStrategies(
	spec, old *corev1beta1.NamespacedCloudProfileSpec, parent *corev1beta1.CloudProfileSpec,
) field.ErrorList {
	find := func(images []corev1beta1.MachineImage, name string) *corev1beta1.MachineImage {
		for i := range images {
			if images[i].Name == name {
				return &images[i]
			}
		}
		return nil
	}
	var errs field.ErrorList
	for i := range spec.MachineImages {
		image := &spec.MachineImages[i]
		before := find(old.MachineImages, image.Name)
		if before == nil || find(parent.MachineImages, image.Name) == nil ||
			equality.Semantic.DeepEqual(image.UpdateStrategy, before.UpdateStrategy) {
			continue
		}
		errs = append(errs, field.Forbidden(specPath.Child("machineImages").Index(i).Child("updateStrategy"),
			"is inherited from the parent's image and cannot be changed here"))
	}
	return errs
}

// usersOf returns the names of Shoots by the versions and types they use, for those that matter. Shoots in deletion do
// not count.
func usersOf(shoots []corev1beta1.Shoot, matters func(string) bool) map[string][]string {
	users := map[string][]string{}
	for i := range shoots {
		if shoots[i].DeletionTimestamp != nil {
			continue
		}
		for _, used := range uses(&shoots[i]) {
			if matters(used) && !slices.Contains(users[used], shoots[i].Name) {
				users[used] = append(users[used], shoots[i].Name)
			}
		}
	}
	return users
}

// pathOf returns the list that offers a version or type.
func pathOf(used string) *field.Path {
	switch {
	case strings.HasPrefix(used, "kubernetes "):
		return specPath.Child("kubernetes", "versions")
	case strings.HasPrefix(used, "image "):
		return specPath.Child("machineImages")
	default:
		return specPath.Child("machineTypes")
	}
}

func uses(shoot *corev1beta1.Shoot) []string {
	used := []string{"kubernetes " + shoot.Spec.Kubernetes.Version}
	for _, worker := range shoot.Spec.Provider.Workers {
		used = append(used, "machine type "+worker.Machine.Type)
		if worker.Kubernetes != nil && worker.Kubernetes.Version != nil {
			used = append(used, "kubernetes "+*worker.Kubernetes.Version)
		}
		if image := worker.Machine.Image; image != nil && image.Version != nil {
			used = append(used, "image "+image.Name+" "+*image.Version)
		}
	}
	return used
}
