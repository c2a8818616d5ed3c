// Package topologyspread makes topology spread constraints of a Deployment count only pods of the same version, as
// matchLabelKeys does. Pods that are about to be replaced should not influence where the new ones are scheduled: the
// spread would be uneven after the update.
package topologyspread

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

// SameRevision adds the label of the version to the selectors of constraints that do not have it, and reports whether
// there were any. A constraint without a selector counts no pods.
func SameRevision(pod *corev1.Pod) bool {
	const label = appsv1.DefaultDeploymentUniqueLabelKey
	_, skipped := pod.Labels[configuration.LabelSkipTopologySpread]
	version, ok := pod.Labels[label]
	if skipped || !ok {
		return false
	}
	changed := false
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.LabelSelector == nil || slices.Contains(c.MatchLabelKeys, label) || c.LabelSelector.MatchLabels[label] != "" {
			continue
		}
		if c.LabelSelector.MatchLabels == nil {
			c.LabelSelector.MatchLabels = map[string]string{}
		}
		c.LabelSelector.MatchLabels[label] = version
		changed = true
	}
	return changed
}
