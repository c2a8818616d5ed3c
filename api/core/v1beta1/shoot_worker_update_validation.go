package v1beta1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateWorkersUpdate checks how pools change that are updated in place. Pools may be added and removed at any time.
func validateWorkersUpdate(shoot, old *Shoot) field.ErrorList {
	var errs field.ErrorList
	for i := range shoot.Spec.Provider.Workers {
		pool, path := &shoot.Spec.Provider.Workers[i], specPath.Child("provider", "workers").Index(i)
		before := workerNamed(old, pool.Name)
		if before == nil || !pool.UpdatesInPlace() && !before.UpdatesInPlace() {
			continue
		}
		if pool.UpdatesInPlace() != before.UpdatesInPlace() {
			errs = append(errs, field.Invalid(path.Child("updateStrategy"), deref(pool.UpdateStrategy),
				"cannot change between a rolling strategy and one that updates in place; add a pool instead"))
			continue
		}
		errs = append(errs, validateInPlaceImmutable(pool, before, path)...)
		if pendingInPlaceUpdate(old, pool.Name) &&
			!slices.Contains(Operations(shoot.Annotations, AnnotationOperation), OperationForceInPlaceUpdate) &&
			poolDiffers(shoot, old, pool, before) {
			errs = append(errs, field.Forbidden(path, "the pool is undergoing an update in place; annotate the Shoot with "+
				AnnotationOperation+"="+OperationForceInPlaceUpdate+" to change it nevertheless"))
		}
	}
	return errs
}

// validateInPlaceImmutable keeps what only a new machine could get.
func validateInPlaceImmutable(pool, before *Worker, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateImmutable(pool.Machine.Type, before.Machine.Type, path.Child("machine", "type"))...)
	if image, old := pool.Machine.Image, before.Machine.Image; image != nil && old != nil {
		imagePath := path.Child("machine", "image")
		errs = append(errs, validateImmutable(image.Name, old.Name, imagePath.Child("name"))...)
		to, from := parseVersion(deref(image.Version)), parseVersion(deref(old.Version))
		if image.Name == old.Name && to != nil && from != nil && fullVersion.MatchString(*image.Version) &&
			to.LessThan(from) {
			errs = append(errs, field.Forbidden(imagePath.Child("version"), "downgrade is not supported: "+*image.Version+
				" is lower than "+*old.Version))
		}
	}
	if cri, old := pool.CRI, before.CRI; cri != nil && old != nil {
		errs = append(errs, validateImmutable(cri.Name, old.Name, path.Child("cri", "name"))...)
	}
	return append(errs, validateImmutable(pool.Volume, before.Volume, path.Child("volume"))...)
}

// pendingInPlaceUpdate reports whether machines of a pool still await an update.
func pendingInPlaceUpdate(shoot *Shoot, pool string) bool {
	pending := pendingInPlaceUpdates(shoot)
	return slices.Contains(pending.AutoInPlaceUpdate, pool) || slices.Contains(pending.ManualInPlaceUpdate, pool)
}

func pendingInPlaceUpdates(shoot *Shoot) PendingWorkerUpdates {
	if shoot.Status.InPlaceUpdates == nil || shoot.Status.InPlaceUpdates.PendingWorkerUpdates == nil {
		return PendingWorkerUpdates{}
	}
	return *shoot.Status.InPlaceUpdates.PendingWorkerUpdates
}

func poolDiffers(shoot, old *Shoot, pool, before *Worker) bool {
	return !equality.Semantic.DeepEqual(pool, before) ||
		effectiveVersion(shoot, pool) != effectiveVersion(old, before) ||
		!equality.Semantic.DeepEqual(EffectiveKubelet(shoot, pool), EffectiveKubelet(old, before))
}
