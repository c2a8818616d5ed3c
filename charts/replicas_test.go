package charts_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"
)

// keepsApart selects the constraint that spreads the pods of a Deployment over nodes.
func keepsApart(d *appsv1.Deployment) func(corev1.TopologySpreadConstraint) bool {
	return func(c corev1.TopologySpreadConstraint) bool {
		return c.TopologyKey == corev1.LabelHostname && c.LabelSelector.MatchLabels["app"] == d.Spec.Template.Labels["app"]
	}
}

// TestDeploymentsOfChartsSurviveALoss: by default each Deployment of a published chart has two replicas, on different
// nodes if possible, of which one at a time is evicted.
func TestDeploymentsOfChartsSurviveALoss(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"garden": gardenValues(), "gardenlet": gardenletValues(nil), "provider-local": {},
	} {
		t.Run(name, func(t *testing.T) {
			objects := rendered(t, name, values)
			checked := 0
			for _, o := range objects {
				if o.GetKind() != "Deployment" {
					continue
				}
				checked++
				d := find[appsv1.Deployment](t, objects, o.GetName())
				if ptr.Deref(d.Spec.Replicas, 1) != 2 {
					t.Errorf("%s has %d replicas, want 2", d.Name, ptr.Deref(d.Spec.Replicas, 1))
				}
				if !slices.ContainsFunc(d.Spec.Template.Spec.TopologySpreadConstraints, keepsApart(d)) {
					t.Errorf("%s is not spread over nodes", d.Name)
				}
				b := find[policyv1.PodDisruptionBudget](t, objects, d.Name)
				if b == nil || b.Spec.Selector.MatchLabels["app"] != d.Spec.Template.Labels["app"] ||
					b.Spec.MaxUnavailable.IntValue() != 1 {
					t.Errorf("the PodDisruptionBudget of %s is %+v", d.Name, b)
				}
			}
			if checked == 0 {
				t.Error("no Deployment was checked")
			}
		})
	}
}
