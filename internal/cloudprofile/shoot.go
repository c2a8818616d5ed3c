package cloudprofile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var (
	versionPath = field.NewPath("spec", "kubernetes", "version")
	workersPath = field.NewPath("spec", "provider", "workers")
)

// DefaultShoot completes the versions, architectures and machine images of a Shoot in place. old is the stored Shoot,
// nil on creation: an existing pool keeps its image unless the new Shoot requests another. Images of Shoots in deletion
// are not changed.
func DefaultShoot(shoot, old *corev1beta1.Shoot, p *Profile, now time.Time) field.ErrorList {
	var errs field.ErrorList
	complete := func(version *string, path *field.Path) {
		full, err := p.DefaultKubernetesVersion(*version, now)
		if err != nil {
			errs = append(errs, field.Invalid(path, *version, err.Error()))
			return
		}
		*version = full
	}
	complete(&shoot.Spec.Kubernetes.Version, versionPath)
	for i := range shoot.Spec.Provider.Workers {
		pool, path := &shoot.Spec.Provider.Workers[i], workersPath.Index(i)
		if pool.Kubernetes != nil && pool.Kubernetes.Version != nil {
			version := *pool.Kubernetes.Version // A copy, because other objects may share the pointer.
			complete(&version, path.Child("kubernetes", "version"))
			pool.Kubernetes.Version = &version
		}
		if pool.Machine.Architecture == nil {
			architecture := p.DefaultArchitecture(pool.Machine.Type)
			pool.Machine.Architecture = &architecture
		}
		if shoot.DeletionTimestamp == nil {
			if err := defaultPoolImage(pool, poolNamed(old, pool.Name), p, path.Child("machine", "image"), now); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

func defaultPoolImage(pool, old *corev1beta1.Worker, p *Profile, path *field.Path, now time.Time) *field.Error {
	image := pool.Machine.Image
	if old != nil && old.Machine.Image != nil {
		kept := old.Machine.Image
		if image == nil {
			pool.Machine.Image = kept.DeepCopy()
			return nil
		}
		given := text(image.Version)
		if image.Name == kept.Name && (given == "" || given == text(kept.Version)) {
			if kept.Version != nil {
				version := *kept.Version
				image.Version = &version
			}
			return nil
		}
	}
	if image == nil {
		image = &corev1beta1.ShootMachineImage{}
	}
	name, version, err := p.DefaultMachineImage(ImageRequest{
		Name:         image.Name,
		Version:      text(image.Version),
		Architecture: text(pool.Machine.Architecture),
		MachineType:  pool.Machine.Type,
		InPlace:      updatesInPlace(pool),
	}, now)
	if err != nil {
		return field.Invalid(path, image.Name, err.Error())
	}
	pool.Machine.Image = &corev1beta1.ShootMachineImage{
		Name: name, Version: &version, ProviderConfig: image.ProviderConfig,
	}
	return nil
}

func poolNamed(shoot *corev1beta1.Shoot, name string) *corev1beta1.Worker {
	if shoot == nil {
		return nil
	}
	i := slices.IndexFunc(shoot.Spec.Provider.Workers, func(w corev1beta1.Worker) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &shoot.Spec.Provider.Workers[i]
}

func updatesInPlace(pool *corev1beta1.Worker) bool {
	return pool.UpdateStrategy != nil && *pool.UpdateStrategy != corev1beta1.AutoRollingUpdate
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
