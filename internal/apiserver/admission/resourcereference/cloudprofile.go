package resourcereference

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// removed is what an update removes from a profile.
type removed struct {
	kubernetes sets.Set[string]
	images     sets.Set[string] // As name:version.
}

func removedFrom(profile, old *corev1beta1.CloudProfileSpec) removed {
	offered := func(spec *corev1beta1.CloudProfileSpec) removed {
		r := removed{sets.New[string](), sets.New[string]()}
		for _, version := range spec.Kubernetes.Versions {
			r.kubernetes.Insert(version.Version)
		}
		for _, image := range spec.MachineImages {
			for _, version := range image.Versions {
				r.images.Insert(image.Name + ":" + version.Version)
			}
		}
		return r
	}
	before, now := offered(old), offered(profile)
	return removed{before.kubernetes.Difference(now.kubernetes), before.images.Difference(now.images)}
}

// cloudProfile checks that nothing in use is removed from a profile, and that no Shoot exceeds new limits.
func (p *plugin) cloudProfile(ctx context.Context, profile, old *corev1beta1.CloudProfile) (field.ErrorList, error) {
	gone := removedFrom(&profile.Spec, &old.Spec)
	limit := newLimit(profile.Spec.Limits, old.Spec.Limits)
	added := addedImages(&profile.Spec, &old.Spec)
	if gone.kubernetes.Len() == 0 && gone.images.Len() == 0 && limit == nil && len(added) == 0 {
		return nil, nil
	}
	references := []corev1beta1.CloudProfileReference{{Kind: corev1beta1.CloudProfileKind, Name: profile.Name}}
	namespaced := &corev1beta1.NamespacedCloudProfileList{}
	if err := p.Live.List(ctx, namespaced); err != nil {
		return nil, err
	}
	var errs field.ErrorList
	for i := range namespaced.Items {
		child := &namespaced.Items[i]
		if child.Spec.Parent.Name != profile.Name {
			continue
		}
		references = append(references,
			corev1beta1.CloudProfileReference{Kind: corev1beta1.NamespacedCloudProfileKind, Name: child.Name})
		errs = append(errs, usedByChild(gone, child)...)
		errs = append(errs, takenByChild(added, child)...)
	}
	for _, ref := range references {
		shoots := &corev1beta1.ShootList{}
		if err := p.Live.List(ctx, shoots,
			client.MatchingFields{"spec.cloudProfile.Name": ref.Name, "spec.cloudProfile.Kind": ref.Kind}); err != nil {
			return nil, err
		}
		errs = append(errs, usedByShoots(gone, limit, shoots.Items)...)
	}
	return errs, nil
}

// maxUsers bounds how many Shoots an error lists. A profile may have thousands.
const maxUsers = 10

// usedByShoots lists the Shoots that use what an update of their profile removes. Shoots in deletion do not count.
func usedByShoots(gone removed, limit *int32, shoots []corev1beta1.Shoot) field.ErrorList {
	var errs field.ErrorList
	users := 0
	for i := range shoots {
		if shoots[i].DeletionTimestamp != nil {
			continue
		}
		problems := usedByShoot(gone, limit, &shoots[i])
		if len(problems) == 0 {
			continue
		}
		if users++; users <= maxUsers {
			errs = append(errs, problems...)
		}
	}
	if users > maxUsers {
		errs = append(errs, field.Forbidden(field.NewPath("spec"),
			fmt.Sprintf("still in use by %d more Shoots", users-maxUsers)))
	}
	return errs
}

// addedImages returns the names of new images, with their paths.
func addedImages(profile, old *corev1beta1.CloudProfileSpec) map[string]*field.Path {
	added := map[string]*field.Path{}
	for i, image := range profile.MachineImages {
		if !slices.ContainsFunc(old.MachineImages, func(o corev1beta1.MachineImage) bool { return o.Name == image.Name }) {
			added[image.Name] = machineImagesPath.Index(i).Child("name")
		}
	}
	return added
}

// takenByChild rejects new images whose name a child profile uses for an image that it adds.
func takenByChild(added map[string]*field.Path, child *corev1beta1.NamespacedCloudProfile) field.ErrorList {
	var errs field.ErrorList
	for _, image := range child.Spec.MachineImages {
		if path := added[image.Name]; path != nil {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("%q is an image of NamespacedCloudProfile %s/%s", image.Name,
				child.Namespace, child.Name)))
		}
	}
	return errs
}

func newLimit(limits, old *corev1beta1.Limits) *int32 {
	if limits == nil || limits.MaxNodesTotal == nil {
		return nil
	}
	if old != nil && old.MaxNodesTotal != nil && *old.MaxNodesTotal <= *limits.MaxNodesTotal {
		return nil
	}
	return limits.MaxNodesTotal
}

var (
	kubernetesVersionsPath = field.NewPath("spec", "kubernetes", "versions")
	machineImagesPath      = field.NewPath("spec", "machineImages")
)

func usedByChild(gone removed, child *corev1beta1.NamespacedCloudProfile) field.ErrorList {
	var errs field.ErrorList
	user := "NamespacedCloudProfile " + child.Namespace + "/" + child.Name
	if child.Spec.Kubernetes != nil {
		for _, version := range child.Spec.Kubernetes.Versions {
			if gone.kubernetes.Has(version.Version) {
				errs = append(errs, field.Forbidden(kubernetesVersionsPath,
					fmt.Sprintf("version %s is used by %s", version.Version, user)))
			}
		}
	}
	for _, image := range child.Spec.MachineImages {
		for _, version := range image.Versions {
			if gone.images.Has(image.Name + ":" + version.Version) {
				errs = append(errs, field.Forbidden(machineImagesPath,
					fmt.Sprintf("image %s version %s is used by %s", image.Name, version.Version, user)))
			}
		}
	}
	return errs
}

// usedByShoot checks the control plane and every pool.
func usedByShoot(gone removed, limit *int32, shoot *corev1beta1.Shoot) field.ErrorList {
	var errs field.ErrorList
	user := "Shoot " + shoot.Namespace + "/" + shoot.Name
	versions := sets.New(shoot.Spec.Kubernetes.Version)
	images := sets.New[string]()
	minimum := int32(0)
	for _, worker := range shoot.Spec.Provider.Workers {
		minimum += worker.Minimum
		if worker.Kubernetes != nil && worker.Kubernetes.Version != nil {
			versions.Insert(*worker.Kubernetes.Version)
		}
		if image := worker.Machine.Image; image != nil && image.Version != nil {
			images.Insert(image.Name + ":" + *image.Version)
		}
	}
	for _, version := range sets.List(versions.Intersection(gone.kubernetes)) {
		errs = append(errs, field.Forbidden(kubernetesVersionsPath, fmt.Sprintf("version %s is used by %s", version, user)))
	}
	for _, image := range sets.List(images.Intersection(gone.images)) {
		errs = append(errs, field.Forbidden(machineImagesPath, fmt.Sprintf("image %s is used by %s", image, user)))
	}
	if limit != nil && minimum > *limit {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "limits", "maxNodesTotal"),
			fmt.Sprintf("%s has at least %d nodes", user, minimum)))
	}
	return errs
}
