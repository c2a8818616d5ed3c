package seed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/controllerregistration"
)

// Reasons of the condition BackupBucketsReady.
const (
	reasonBucketsAvailable   = "BackupBucketsAvailable"
	reasonBucketsError       = "BackupBucketsError"
	reasonBucketsProgressing = "BackupBucketsProgressing"
	reasonBucketsMissing     = "BackupBucketsMissing"
)

// BackupBuckets summarizes the state of every Seed's buckets in a condition.
type BackupBuckets struct {
	Garden client.Client // Cached reads, direct writes.
	Clock  clock.PassiveClock
}

// SetupWithManager registers the controller.
func (r *BackupBuckets) SetupWithManager(mgr ctrl.Manager) error {
	toSeed := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (out []reconcile.Request) {
		if name := o.(*corev1beta1.BackupBucket).Spec.SeedName; name != nil {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: *name}})
		}
		return out
	})
	relevantSeeds := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, conditionTouched)
	return ctrl.NewControllerManagedBy(mgr).
		Named("seed-backupbuckets").
		For(&corev1beta1.Seed{}, builder.WithPredicates(relevantSeeds)).
		Watches(&corev1beta1.BackupBucket{}, toSeed).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// conditionTouched passes updates that have changed or removed our condition: the gardenlet writes the whole list, and
// may have read it before our write.
var conditionTouched = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	old, ok1 := e.ObjectOld.(*corev1beta1.Seed)
	now, ok2 := e.ObjectNew.(*corev1beta1.Seed)
	if !ok1 || !ok2 {
		return false
	}
	before, after := bucketsReady(old), bucketsReady(now)
	return now.Spec.Backup != nil && after == nil || !equality.Semantic.DeepEqual(before, after)
}}

func bucketsReady(seed *corev1beta1.Seed) *corev1beta1.Condition {
	return corev1beta1.FindCondition(seed.Status.Conditions, corev1beta1.SeedBackupBucketsReady)
}

// Reconcile writes the condition of one Seed.
func (r *BackupBuckets) Reconcile(ctx context.Context, seed *corev1beta1.Seed) (reconcile.Result, error) {
	var buckets corev1beta1.BackupBucketList
	ofSeed := client.MatchingFields{controllerregistration.IndexSpecSeed: seed.Name}
	if err := r.Garden.List(ctx, &buckets, ofSeed, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list BackupBuckets of Seed %q: %w", seed.Name, err)
	}
	before := seed.DeepCopy()
	if seed.Spec.Backup == nil && len(buckets.Items) == 0 {
		seed.Status.Conditions = slices.DeleteFunc(slices.Clone(seed.Status.Conditions), func(c corev1beta1.Condition) bool {
			return c.Type == corev1beta1.SeedBackupBucketsReady
		})
	} else {
		status, reason, message := judgeBuckets(buckets.Items)
		seed.Status.Conditions = setCondition(seed.Status.Conditions, corev1beta1.SeedBackupBucketsReady, status, reason,
			message, r.Clock.Now())
	}
	return reconcile.Result{}, patchConditions(ctx, r.Garden, seed, before)
}

// judgeBuckets summarizes the state of buckets: an error in one outweighs work in progress in others.
func judgeBuckets(buckets []corev1beta1.BackupBucket) (status corev1beta1.ConditionStatus, reason, message string) {
	if len(buckets) == 0 {
		return corev1beta1.ConditionUnknown, reasonBucketsMissing, "The backup bucket has not been created yet."
	}
	var failed, working []string
	for _, b := range slices.SortedFunc(slices.Values(buckets),
		func(a, b corev1beta1.BackupBucket) int { return cmp.Compare(a.Name, b.Name) }) {
		switch {
		case b.Status.LastError != nil:
			failed = append(failed, fmt.Sprintf("%s: %s", b.Name, b.Status.LastError.Description))
		case b.Status.LastOperation == nil || b.Status.LastOperation.State != corev1beta1.LastOperationStateSucceeded:
			working = append(working, b.Name)
		}
	}
	switch {
	case len(failed) > 0:
		return corev1beta1.ConditionFalse, reasonBucketsError, "Backup buckets have errors: " + strings.Join(failed, "; ")
	case len(working) > 0:
		return corev1beta1.ConditionProgressing, reasonBucketsProgressing, "Backup buckets are being worked on: " +
			strings.Join(working, ", ")
	}
	return corev1beta1.ConditionTrue, reasonBucketsAvailable, "All backup buckets are available."
}
