package versions

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/Masterminds/semver/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/plan"
)

// Outlook lists the possible and the coming updates of one Shoot.
type Outlook struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Uses      []Use          `json:"uses"`
	Coming    plan.ShootPlan `json:"coming"`
}

// Use is one version that the Shoot uses.
type Use struct {
	What    string   `json:"what"` // "kubernetes", "kubernetes of pool P" or "image I of pool P".
	Version string   `json:"version"`
	Class   string   `json:"classification"` // "not offered" if the profile does not have it.
	Expires string   `json:"expires,omitempty"`
	Targets []string `json:"targets"` // Versions that its owner may update to now, ascending.
}

// OutlookOf returns the outlook of one Shoot.
func OutlookOf(shoot *corev1beta1.Shoot, profile *cloudprofile.Profile, coming plan.ShootPlan, now time.Time) *Outlook {
	o := &Outlook{Namespace: shoot.Namespace, Name: shoot.Name, Coming: coming}
	o.Uses = append(o.Uses, use("kubernetes", shoot.Spec.Kubernetes.Version,
		profile.KubernetesVersion(shoot.Spec.Kubernetes.Version),
		controlPlaneTargets(profile, shoot, now), now))
	cluster := maintenance.ClusterOf(shoot)
	for i := range cluster.Pools {
		pool := &cluster.Pools[i]
		if pool.Kubernetes != "" {
			o.Uses = append(o.Uses, use("kubernetes of pool "+pool.Name, pool.Kubernetes,
				profile.KubernetesVersion(pool.Kubernetes),
				poolTargets(profile, pool, cluster.Kubernetes, now), now))
		}
		image := profile.Image(pool.Image)
		if image == nil {
			continue
		}
		var current *cloudprofile.Version
		if v := image.Version(pool.ImageVersion); v != nil {
			current = &v.Version
		}
		o.Uses = append(o.Uses, use(fmt.Sprintf("image %s of pool %s", pool.Image, pool.Name), pool.ImageVersion, current,
			imageTargets(profile, image, pool, cluster.Kubernetes, now), now))
	}
	return o
}

func use(what, version string, offered *cloudprofile.Version, targets []string, now time.Time) Use {
	u := Use{What: what, Version: version, Class: "not offered", Targets: targets}
	if offered != nil {
		u.Class = offered.Label(now)
		if expiry, expires := offered.Expiry(); expires {
			u.Expires = expiry.UTC().Format(time.RFC3339)
		}
	}
	return u
}

// controlPlaneTargets returns the versions above the current one, at most one minor up, that leave no pool too far
// behind.
func controlPlaneTargets(p *cloudprofile.Profile, shoot *corev1beta1.Shoot, now time.Time) []string {
	cluster := maintenance.ClusterOf(shoot)
	return kubernetesTargets(p, cluster.Kubernetes, now, func(v, current *semver.Version) bool {
		for i := range cluster.Pools {
			if own, err := semver.NewVersion(cluster.Pools[i].Kubernetes); err == nil && cloudprofile.SkewProblem(v, own) != "" {
				return false
			}
		}
		return v.Minor() <= current.Minor()+1
	})
}

// poolTargets returns the versions above the pool's, up to the control plane's. Pools updated in place cannot skip a
// minor.
func poolTargets(p *cloudprofile.Profile, pool *maintenance.Pool, controlPlane string, now time.Time) []string {
	most, err := semver.NewVersion(controlPlane)
	if err != nil {
		return []string{}
	}
	return kubernetesTargets(p, pool.Kubernetes, now, func(v, current *semver.Version) bool {
		return !v.GreaterThan(most) && (!pool.InPlace || v.Minor() <= current.Minor()+1)
	})
}

// kubernetesTargets returns the active versions above the given one that are accepted, ascending.
func kubernetesTargets(
	p *cloudprofile.Profile, version string, now time.Time, accept func(v, current *semver.Version) bool,
) []string {
	targets := []string{}
	current, err := semver.NewVersion(version)
	if err != nil {
		return targets
	}
	for _, v := range p.Kubernetes {
		if v.Semver.GreaterThan(current) && v.ClassAt(now).Active() && v.Semver.Major() == current.Major() &&
			accept(v.Semver, current) {
			targets = append(targets, v.Text)
		}
	}
	return targets
}

// imageTargets returns the other versions of the image that suit the pool: any for pools that replace their machines,
// higher ones for pools that are updated in place.
func imageTargets(
	p *cloudprofile.Profile, image *cloudprofile.Image, pool *maintenance.Pool, controlPlane string, now time.Time,
) []string {
	targets := []string{}
	current, err := semver.NewVersion(pool.ImageVersion)
	for _, v := range image.Eligible(maintenance.NeedsOf(pool, p, controlPlane)) {
		if v.Text == pool.ImageVersion || !v.ClassAt(now).Active() || pool.InPlace &&
			(err != nil || !v.Semver.GreaterThan(current)) {
			continue
		}
		targets = append(targets, v.Text)
	}
	return targets
}

func writeOutlook(out io.Writer, o *Outlook, p *plan.Plan) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tVERSION\tCLASS\tEXPIRES\tCAN GO TO")
	for _, u := range o.Uses {
		expires := u.Expires
		if expires == "" {
			expires = "-"
		}
		targets := "-"
		if len(u.Targets) > 0 {
			targets = strings.Join(u.Targets, " ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", u.What, u.Version, u.Class, expires, targets)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write versions: %w", err)
	}
	if _, err := fmt.Fprintln(out, "\nMaintenance:"); err != nil {
		return fmt.Errorf("write versions: %w", err)
	}
	return plan.WriteTable(out, p, false)
}
