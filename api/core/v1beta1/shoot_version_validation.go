package v1beta1

import (
	"fmt"
	"regexp"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kubernetes supports kubelets this many minors behind the API server, older API servers fewer.
const (
	maxPoolSkew             = 3
	maxPoolSkewBefore128    = 2
	firstMinorWithWiderSkew = 28
)

// fullVersion and partialVersion are the forms of a Kubernetes version in a Shoot after and before admission.
var (
	fullVersion    = regexp.MustCompile(`^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)([-+~].*)?$`)
	partialVersion = regexp.MustCompile(`^v?(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?$`)
)

// parseVersion returns the version without what follows its three numbers, nil if it is none.
func parseVersion(text string) *semver.Version {
	if match := coreVersion.FindString(text); match != "" {
		if v, err := semver.NewVersion(match); err == nil {
			return v
		}
	}
	return nil
}

var coreVersion = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+){0,2}`)

// minorOf returns the minor of a Kubernetes version 1.x, or -1 if it is none: nothing is known about that one.
func minorOf(version string) int {
	if v := parseVersion(version); v != nil && v.Major() == 1 && v.Minor() < 1000 &&
		partialOrFullMinor.MatchString(version) {
		return int(v.Minor())
	}
	return -1
}

var partialOrFullMinor = regexp.MustCompile(`^v?[0-9]+\.[0-9]+`)

// ownVersion is the version that a pool sets for itself, or "".
func ownVersion(pool *Worker) string {
	if pool.Kubernetes == nil {
		return ""
	}
	return deref(pool.Kubernetes.Version)
}

// effectiveVersion is the version of a pool's kubelets: its own, else that of the control plane.
func effectiveVersion(shoot *Shoot, pool *Worker) string {
	if own := ownVersion(pool); own != "" {
		return own
	}
	return shoot.Spec.Kubernetes.Version
}

// versionForm checks that a version can be one at all.
func (v ShootValidation) versionForm(version string, path *field.Path) field.ErrorList {
	switch {
	case version == "", fullVersion.MatchString(version):
		return nil
	case v.BeforeAdmission && partialVersion.MatchString(version):
		return nil
	}
	return field.ErrorList{field.Invalid(path, version, "must be a version such as 1.36.3")}
}

// poolVersion checks a pool's own version against that of the control plane.
func (v ShootValidation) poolVersion(shoot *Shoot, pool *Worker, path *field.Path) field.ErrorList {
	own := ownVersion(pool)
	if own == "" {
		return nil
	}
	path = path.Child("kubernetes", "version")
	if errs := v.versionForm(own, path); errs != nil {
		return errs
	}
	if !fullVersion.MatchString(own) || !fullVersion.MatchString(shoot.Spec.Kubernetes.Version) {
		return nil // Admission has not resolved them yet.
	}
	if problem := skewProblem(shoot.Spec.Kubernetes.Version, own); problem != "" {
		return field.ErrorList{field.Forbidden(path, problem)}
	}
	return nil
}

func skewProblem(controlPlaneText, poolText string) string {
	controlPlane, pool := parseVersion(controlPlaneText), parseVersion(poolText)
	if controlPlane == nil || pool == nil {
		return ""
	}
	if pool.GreaterThan(controlPlane) {
		return fmt.Sprintf("%s is higher than the control plane's %s", pool, controlPlane)
	}
	limit := uint64(maxPoolSkew)
	if controlPlane.Major() == 1 && controlPlane.Minor() < firstMinorWithWiderSkew {
		limit = maxPoolSkewBefore128
	}
	if pool.Major() != controlPlane.Major() || pool.Minor()+limit < controlPlane.Minor() {
		return fmt.Sprintf("%s is more than %d minors behind the control plane's %s", pool, limit, controlPlane)
	}
	return ""
}

// validateVersionUpdate checks the update of the control plane and of each pool from one version to another.
func validateVersionUpdate(shoot, old *Shoot) field.ErrorList {
	errs := versionStep(old.Spec.Kubernetes.Version, shoot.Spec.Kubernetes.Version, false,
		specPath.Child("kubernetes", "version"))
	for i := range shoot.Spec.Provider.Workers {
		pool := &shoot.Spec.Provider.Workers[i]
		before := workerNamed(old, pool.Name)
		if before == nil {
			continue
		}
		// A pool that follows the control plane takes the control plane's step, which was checked already.
		if ownVersion(pool) == "" && ownVersion(before) == "" {
			continue
		}
		mayskip := !pool.UpdatesInPlace()
		errs = append(errs, versionStep(effectiveVersion(old, before), effectiveVersion(shoot, pool), mayskip,
			specPath.Child("provider", "workers").Index(i).Child("kubernetes", "version"))...)
	}
	return errs
}

func versionStep(fromText, toText string, maySkip bool, path *field.Path) field.ErrorList {
	if fromText == toText || !fullVersion.MatchString(toText) {
		return nil // Incomplete versions are completed by admission.
	}
	from, to := parseVersion(fromText), parseVersion(toText)
	switch {
	case from == nil || to == nil:
		return nil
	case to.LessThan(from):
		return field.ErrorList{
			field.Forbidden(path, fmt.Sprintf("downgrade is not supported: %s is lower than %s", to, from)),
		}
	case !maySkip && (to.Major() != from.Major() || to.Minor() > from.Minor()+1):
		return field.ErrorList{
			field.Forbidden(path, fmt.Sprintf("cannot skip a minor version: after %s comes %d.%d", from, from.Major(),
				from.Minor()+1)),
		}
	}
	return nil
}

func workerNamed(shoot *Shoot, name string) *Worker {
	for i := range shoot.Spec.Provider.Workers {
		if shoot.Spec.Provider.Workers[i].Name == name {
			return &shoot.Spec.Provider.Workers[i]
		}
	}
	return nil
}
