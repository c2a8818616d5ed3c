package maintenance

import (
	"fmt"
	"time"

	"github.com/Masterminds/semver/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
)

// Fix says what an operator must add to the profile so that a failed update finds a target.
func (i *Item) Fix(p *cloudprofile.Profile) string {
	v, err := semver.NewVersion(i.From)
	if err != nil {
		return "correct the version in the Shoot"
	}
	if i.Subject != PoolImage {
		return fmt.Sprintf("offer a %d.%d.x that is not preview, or a %d.%d.x above %s that is neither preview nor expired",
			v.Major(), v.Minor()+1, v.Major(), v.Minor(), i.From)
	}
	pool := "the pools"
	if i.Pool != "" {
		pool = fmt.Sprintf("worker pool %q", i.Pool)
	}
	suffix := fmt.Sprintf(" of image %q above %s that is neither preview nor expired and suits %s", i.Image, i.From, pool)
	image := p.Image(i.Image)
	if image == nil {
		return "offer image " + i.Image
	}
	switch image.Strategy {
	case corev1beta1.UpdateStrategyPatch:
		return fmt.Sprintf("offer a %d.x.x", v.Major()) + suffix
	case corev1beta1.UpdateStrategyMinor:
		return "offer a version of this or a higher major" + suffix
	}
	return "offer a version" + suffix
}

// Expiry returns the expiration date that makes the item due, and false if the version is not in the profile or never
// expires.
func (i *Item) Expiry(p *cloudprofile.Profile) (at time.Time, ok bool) {
	if i.Cause != CauseExpired {
		return time.Time{}, false
	}
	if i.Subject != PoolImage {
		if v := p.KubernetesVersion(i.From); v != nil {
			return v.Expiry()
		}
		return time.Time{}, false
	}
	if image := p.Image(i.Image); image != nil {
		if v := image.Version(i.From); v != nil {
			return v.Expiry()
		}
	}
	return time.Time{}, false
}
