package maintenance

import (
	"fmt"
	"strings"

	"hortus.dev/hortus/internal/cloudprofile"
)

// RefusedBy predicts whether the API server refuses the versions of a cluster after a maintenance, and returns the
// reason, or "" if it accepts them. A refused maintenance changes nothing and is retried in every window. Only rules
// that depend on versions are checked: the version skew of pools, the kubelet versions that machine images support, and
// whether new versions are in the profile.
func (d *Decider) RefusedBy(before, after *Cluster) string {
	var reasons []string
	controlPlane := d.parse(after.Kubernetes)
	if controlPlane == nil {
		return ""
	}
	for i := range after.Pools {
		pool := &after.Pools[i]
		kubelet := d.parse(pool.effectiveKubernetes(after.Kubernetes))
		if kubelet == nil {
			continue
		}
		if problem := cloudprofile.SkewProblem(controlPlane, kubelet); problem != "" {
			reasons = append(reasons, fmt.Sprintf("worker pool %q: %s", pool.Name, problem))
		}
		if i < len(before.Pools) && before.Pools[i].Kubernetes != pool.Kubernetes &&
			d.profile.KubernetesVersion(pool.Kubernetes) == nil {
			// The target was lowered to the control plane's version, which the CloudProfile no longer has.
			reasons = append(reasons, fmt.Sprintf("worker pool %q: Kubernetes version %s does not exist in CloudProfile",
				pool.Name, pool.Kubernetes))
		}
		if i < len(before.Pools) && before.Pools[i].ImageVersion == pool.ImageVersion &&
			before.Pools[i].effectiveKubernetes(before.Kubernetes) == pool.effectiveKubernetes(after.Kubernetes) {
			continue
		}
		if image := d.profile.Image(pool.Image); image != nil {
			if v := image.Version(pool.ImageVersion); v != nil && !v.AcceptsKubelet(kubelet) {
				reasons = append(reasons, fmt.Sprintf("worker pool %q: machine image %s %s accepts only kubelets %s, not %s",
					pool.Name, image.Name, v.Text, v.KubeletText, kubelet))
			}
		}
	}
	return strings.Join(reasons, "; ")
}
