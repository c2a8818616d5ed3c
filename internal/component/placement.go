package component

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Placement determines the nodes of a Shoot on which pods may run.
type Placement struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

// SystemComponents returns the placement of system components that need not be on every node: on nodes of pools that
// allow it (spec.provider.workers[].systemComponents), whatever their taints.
func SystemComponents(pools []corev1beta1.Worker) Placement {
	tolerations := []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}}
	for i := range pools {
		if !AllowsSystemComponents(&pools[i]) {
			continue
		}
		for _, taint := range pools[i].Taints {
			t := corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
			if !slices.Contains(tolerations, t) {
				tolerations = append(tolerations, t)
			}
		}
	}
	// The order of pools makes no difference.
	slices.SortFunc(tolerations[1:], func(a, b corev1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return Placement{
		NodeSelector: map[string]string{corev1beta1.LabelWorkerPoolSystemComponents: "true"}, Tolerations: tolerations,
	}
}

// AllowsSystemComponents reports whether a pool may run system components.
func AllowsSystemComponents(pool *corev1beta1.Worker) bool {
	return pool.SystemComponents == nil || pool.SystemComponents.Allow
}
