package maintenance

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
)

// expiresSoon is how long before its expiration date a version is worth a warning: time to try the next one, and to
// wait for a few maintenance windows.
const expiresSoon = 90 * 24 * time.Hour

// Warnings lists versions of a Shoot, which must be complete, that are deprecated, expire soon or have expired, and
// what maintenance will do about them under the current profile. A Shoot whose spec does not change gets none; old is
// nil for a new Shoot.
func Warnings(shoot, old *corev1beta1.Shoot, profile *cloudprofile.Profile, now time.Time) []string {
	if old != nil && equality.Semantic.DeepEqual(shoot.Spec, old.Spec) {
		return nil
	}
	w := warner{profile: profile, decider: NewDecider(profile), cluster: ClusterOf(shoot), now: now}
	w.kubernetes("spec.kubernetes.version", ControlPlane, "", w.cluster.Kubernetes)
	for i := range w.cluster.Pools {
		pool, path := &w.cluster.Pools[i], fmt.Sprintf("spec.provider.workers[%d]", i)
		if pool.Kubernetes != "" {
			w.kubernetes(path+".kubernetes.version", PoolKubernetes, pool.Name, pool.Kubernetes)
		}
		if image := profile.Image(pool.Image); image != nil {
			if v := image.Version(pool.ImageVersion); v != nil {
				w.version(path+".machine.image", PoolImage, pool.Name, pool.Image+" "+v.Text, &v.Version)
			}
		}
	}
	return w.warnings
}

// warner collects warnings about one Cluster.
type warner struct {
	profile  *cloudprofile.Profile
	decider  *Decider
	cluster  Cluster
	now      time.Time
	warnings []string
}

func (w *warner) kubernetes(path string, subject Subject, pool, version string) {
	if v := w.profile.KubernetesVersion(version); v != nil {
		w.version(path, subject, pool, v.Text, v)
	}
}

func (w *warner) version(path string, subject Subject, pool, name string, v *cloudprofile.Version) {
	class := v.ClassAt(w.now)
	expiry, expires := v.Expiry()
	soon := expires && expiry.Sub(w.now) <= expiresSoon
	var text string
	switch at := expiry.UTC().Format(time.RFC3339); {
	case class == cloudprofile.Expired:
		text = "expired at " + at
	case class == cloudprofile.Deprecated && expires:
		text = "is deprecated and expires at " + at
	case class == cloudprofile.Deprecated:
		text = "is deprecated"
	case soon:
		text = "expires at " + at
	default:
		return
	}
	text = path + ": " + name + " " + text
	if target := w.target(subject, pool, w.now); target != "" {
		text += "; the next maintenance updates it to " + target
	} else if expires && class != cloudprofile.Expired {
		if target := w.target(subject, pool, expiry.Add(1)); target != "" { // Strictly after the date.
			text += "; the maintenance after it updates to " + target
		}
	}
	w.warnings = append(w.warnings, text)
}

// target is the version that a maintenance at the given time changes to, empty if it changes nothing or cannot.
func (w *warner) target(subject Subject, pool string, at time.Time) string {
	decision := w.decider.Decide(&w.cluster, at)
	for _, item := range append(decision.Items, decision.Unreported...) {
		if item.Pool == pool && item.Err == nil && (item.Subject == subject) {
			return item.To
		}
	}
	return ""
}
