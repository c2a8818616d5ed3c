package cloudprofile

import (
	"fmt"

	"github.com/Masterminds/semver/v3"
)

// Kubernetes supports kubelets up to this many minors behind the API server; for older API servers fewer.
const (
	maxSkew          = 3
	maxSkewBefore128 = 2
)

// MaxSkew returns the maximum number of minors that a pool may be behind a control plane of the given version.
func MaxSkew(controlPlane *semver.Version) uint64 {
	if controlPlane.Major() == 1 && controlPlane.Minor() < 28 {
		return maxSkewBefore128
	}
	return maxSkew
}

// SkewProblem returns the problem with a pool's Kubernetes version relative to the control plane's, "" if there is
// none.
func SkewProblem(controlPlane, pool *semver.Version) string {
	controlPlane, pool = Core(controlPlane), Core(pool)
	if pool.GreaterThan(controlPlane) {
		return fmt.Sprintf("Kubernetes version %s is higher than the control plane's %s", pool, controlPlane)
	}
	if limit := MaxSkew(controlPlane); pool.Major() != controlPlane.Major() || pool.Minor()+limit < controlPlane.Minor() {
		return fmt.Sprintf("Kubernetes version %s is more than %d minors behind the control plane's %s", pool, limit,
			controlPlane)
	}
	return ""
}
