package gardenletchart

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// Report writes a condition of a Gardenlet whose spec has been observed. The controller manager and the gardenlet both
// write its conditions.
func Report(
	ctx context.Context, garden client.Client, gardenlet *seedmanagementv1alpha1.Gardenlet,
	condition corev1beta1.Condition, now time.Time,
) error {
	before, status := gardenlet.DeepCopy(), &gardenlet.Status
	status.Conditions = corev1beta1.SetCondition(status.Conditions, condition, now)
	status.ObservedGeneration = gardenlet.Generation
	return kube.PatchSharedStatus(ctx, garden, gardenlet, before)
}
