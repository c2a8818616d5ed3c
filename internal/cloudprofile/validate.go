package cloudprofile

import (
	"fmt"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// ValidateShootVersions checks the Kubernetes versions and machine images of a completed Shoot against the profile. old
// is the stored Shoot, nil on creation. Only new and changed values are checked, so that a Shoot can still be changed
// after its versions have expired or have been removed. New clusters and pools need active versions; existing ones may
// also change to expired versions, because maintenance may have to.
func ValidateShootVersions(shoot, old *corev1beta1.Shoot, p *Profile, now time.Time) field.ErrorList {
	var errs field.ErrorList
	if version := shoot.Spec.Kubernetes.Version; old == nil || version != old.Spec.Kubernetes.Version {
		errs = append(errs, p.validateKubernetes(version, old == nil, versionPath, now)...)
	}
	for i := range shoot.Spec.Provider.Workers {
		pool, path := &shoot.Spec.Provider.Workers[i], workersPath.Index(i)
		before := poolNamed(old, pool.Name)
		version, versionBefore := poolVersion(pool), poolVersion(before)
		if version != "" && version != versionBefore {
			errs = append(errs, p.validateKubernetes(version, before == nil, path.Child("kubernetes", "version"), now)...)
		}
		if pool.Machine.Image == nil {
			continue
		}
		check := imageCheck{
			profile: p, pool: pool, old: before, now: now, path: path,
			kubelet: orElse(version, shoot.Spec.Kubernetes.Version),
		}
		if before != nil {
			check.oldKubelet = orElse(versionBefore, old.Spec.Kubernetes.Version)
		}
		errs = append(errs, check.run()...)
	}
	return errs
}

func (p *Profile) validateKubernetes(version string, isNew bool, path *field.Path, now time.Time) field.ErrorList {
	v := p.KubernetesVersion(version)
	if v != nil && (!isNew || v.ClassAt(now).Active()) {
		return nil
	}
	var offered []string
	for i := len(p.Kubernetes) - 1; i >= 0; i-- {
		if p.Kubernetes[i].ClassAt(now).Active() {
			offered = append(offered, p.Kubernetes[i].Text)
		}
	}
	err := field.NotSupported(path, version, offered)
	if v != nil {
		err.Detail = fmt.Sprintf("is %s; %s", v.ClassAt(now), err.Detail)
	}
	return field.ErrorList{err}
}

// imageCheck checks the machine image of one pool.
type imageCheck struct {
	profile             *Profile
	pool, old           *corev1beta1.Worker // Nil for a new pool.
	kubelet, oldKubelet string
	now                 time.Time
	path                *field.Path
}

func (c imageCheck) run() field.ErrorList {
	if !c.changed() {
		return nil
	}
	path := c.path.Child("machine", "image")
	name, version := c.pool.Machine.Image.Name, text(c.pool.Machine.Image.Version)
	var v *ImageVersion
	image := c.profile.exactImage(name)
	if image != nil {
		v = image.Version(version)
	}
	switch {
	case v == nil && !c.imageChanged():
		return nil // The profile no longer has the version, so nothing is known about it.
	case v == nil:
		return field.ErrorList{field.NotSupported(path.Child("version"), name+":"+version, image.offered(c.now))}
	case c.imageChanged() && !c.classAllowed(v):
		return field.ErrorList{field.Invalid(path.Child("version"), name+":"+version,
			fmt.Sprintf("version is %s", v.ClassAt(c.now)))}
	}
	var errs field.ErrorList
	needs := Needs{
		Architecture: text(c.pool.Machine.Architecture), MachineType: c.profile.MachineTypes[c.pool.Machine.Type],
	}
	if (c.imageChanged() || c.machineChanged()) && needs.Architecture != "" && !image.runsOn(v, needs) {
		errs = append(errs, field.Invalid(path, name+":"+version,
			fmt.Sprintf("does not run on machine type %q with architecture %q", c.pool.Machine.Type, needs.Architecture)))
	}
	if updatesInPlace(c.pool) && c.imageChanged() {
		if message := c.inPlaceProblem(v); message != "" {
			errs = append(errs, field.Invalid(path, name+":"+version, message))
		}
	}
	if c.imageChanged() || c.criChanged() {
		errs = append(errs, c.checkCRI(v, name+":"+version)...)
	}
	if kubelet, err := semver.NewVersion(c.kubelet); err == nil && (c.imageChanged() || c.kubeletChanged()) &&
		!v.AcceptsKubelet(kubelet) {
		errs = append(errs, field.Invalid(path, name+":"+version,
			fmt.Sprintf("machine image accepts kubelet versions %s, the pool's is %s", v.KubeletText, c.kubelet)))
	}
	return errs
}

func (c imageCheck) checkCRI(v *ImageVersion, image string) field.ErrorList {
	cri := c.pool.CRI
	if cri == nil {
		return nil
	}
	var errs field.ErrorList
	if !v.OffersCRI(string(cri.Name), nil) {
		errs = append(errs, field.Invalid(c.path.Child("cri", "name"), cri.Name, "not offered by machine image "+image))
	}
	for i, runtime := range cri.ContainerRuntimes {
		if !v.OffersCRI(string(cri.Name), []string{runtime.Type}) {
			errs = append(errs, field.Invalid(c.path.Child("cri", "containerRuntimes").Index(i).Child("type"), runtime.Type,
				"not offered by machine image "+image))
		}
	}
	return errs
}

// changed reports whether any value has changed that affects the choice of the image.
func (c imageCheck) changed() bool {
	return c.imageChanged() || c.kubeletChanged() || c.machineChanged() || c.criChanged()
}

func (c imageCheck) kubeletChanged() bool { return c.kubelet != c.oldKubelet }

func (c imageCheck) machineChanged() bool {
	return c.old == nil || c.pool.Machine.Type != c.old.Machine.Type ||
		text(c.pool.Machine.Architecture) != text(c.old.Machine.Architecture)
}

func (c imageCheck) criChanged() bool {
	return c.old == nil || !slices.Equal(runtimesOf(c.pool.CRI), runtimesOf(c.old.CRI))
}

func (c imageCheck) imageChanged() bool {
	return c.old == nil || c.old.Machine.Image == nil ||
		c.old.Machine.Image.Name != c.pool.Machine.Image.Name ||
		text(c.old.Machine.Image.Version) != text(c.pool.Machine.Image.Version)
}

// classAllowed reports whether the class of a version is allowed. Active versions are; expired ones are if an existing
// pool keeps its version or upgrades.
func (c imageCheck) classAllowed(v *ImageVersion) bool {
	class := v.ClassAt(c.now)
	if class.Active() {
		return true
	}
	if class != Expired || c.old == nil || c.old.Machine.Image == nil ||
		c.old.Machine.Image.Name != c.pool.Machine.Image.Name {
		return false
	}
	before, err := semver.NewVersion(text(c.old.Machine.Image.Version))
	return err == nil && !v.Semver.LessThan(before)
}

func (c imageCheck) inPlaceProblem(v *ImageVersion) string {
	if !v.InPlace {
		return "machine image version does not support in-place updates"
	}
	if c.old == nil || c.old.Machine.Image == nil || !updatesInPlace(c.old) {
		return ""
	}
	from := text(c.old.Machine.Image.Version)
	before, err := semver.NewVersion(from)
	if err == nil && (v.InPlaceMinimum == nil || v.InPlaceMinimum.GreaterThan(before)) {
		return fmt.Sprintf("machine image version cannot be reached from %s in place", from)
	}
	return ""
}

// exactImage returns an image by its exact name, as the API uses it; Profile.Image is for maintenance.
func (p *Profile) exactImage(name string) *Image {
	if image := p.Image(name); image != nil && image.Name == name {
		return image
	}
	return nil
}

func (i *Image) offered(now time.Time) []string {
	if i == nil {
		return nil
	}
	var offered []string
	for at := len(i.Versions) - 1; at >= 0; at-- {
		if i.Versions[at].ClassAt(now).Active() {
			offered = append(offered, i.Name+":"+i.Versions[at].Text)
		}
	}
	return offered
}

func runtimesOf(cri *corev1beta1.CRI) []string {
	if cri == nil {
		return []string{string(corev1beta1.CRINameContainerD)}
	}
	names := []string{string(cri.Name)}
	for _, r := range cri.ContainerRuntimes {
		names = append(names, r.Type)
	}
	return names
}

func poolVersion(pool *corev1beta1.Worker) string {
	if pool == nil || pool.Kubernetes == nil {
		return ""
	}
	return text(pool.Kubernetes.Version)
}

func orElse(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}
