package seed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// shootsUnknownAfter is how long a gardenlet may send no heartbeat before the conditions of its Shoots become Unknown.
// It allows for the replacement of a node of the Seed, because every Shoot of the Seed is written.
const shootsUnknownAfter = 5 * time.Minute

// setCondition returns the conditions with one of them set. Its times change only if it changes.
func setCondition(
	conditions []corev1beta1.Condition, kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus, reason,
	message string, now time.Time,
) []corev1beta1.Condition {
	at := metav1.NewTime(now.Truncate(time.Second))
	wanted := corev1beta1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: at, LastUpdateTime: at,
	}
	out := slices.Clone(conditions)
	for i, c := range out {
		if c.Type != kind {
			continue
		}
		if c.Status == status && c.Reason == reason && c.Message == message && len(c.Codes) == 0 {
			return conditions
		}
		if c.Status == status {
			wanted.LastTransitionTime = c.LastTransitionTime
		}
		out[i] = wanted
		return out
	}
	return append(out, wanted)
}

// untilShootsUnknown returns how long the Shoots of a Seed without heartbeat still keep their conditions.
func untilShootsUnknown(conditions []corev1beta1.Condition, now time.Time) time.Duration {
	for _, c := range conditions {
		if c.Type == conditionGardenletReady && c.Status == corev1beta1.ConditionUnknown {
			return c.LastTransitionTime.Add(shootsUnknownAfter).Sub(now)
		}
	}
	return shootsUnknownAfter
}

// allUnknown reports whether all conditions are Unknown.
func allUnknown(conditions []corev1beta1.Condition) bool {
	return !slices.ContainsFunc(conditions,
		func(c corev1beta1.Condition) bool { return c.Status != corev1beta1.ConditionUnknown })
}

// unknownAll returns the conditions with status Unknown.
func unknownAll(conditions []corev1beta1.Condition, now time.Time) []corev1beta1.Condition {
	for _, c := range conditions {
		if c.Status != corev1beta1.ConditionUnknown {
			conditions = setCondition(conditions, c.Type, corev1beta1.ConditionUnknown, reasonStatusUnknown,
				"The gardenlet has stopped sending heartbeats.", now)
		}
	}
	return conditions
}

// patchConditions writes the status. The gardenlet writes conditions of the same objects, and a merge patch replaces
// the whole list; therefore the patch carries the resource version. A conflict means that a newer object is about to be
// reconciled.
func patchConditions(ctx context.Context, c client.Client, obj, before client.Object) error {
	if equality.Semantic.DeepEqual(obj, before) {
		return nil
	}
	changed := obj.DeepCopyObject().(client.Object)
	err := c.Status().Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patch status of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	kube.LogConditions(ctx, c.Scheme(), changed, before)
	return nil
}
