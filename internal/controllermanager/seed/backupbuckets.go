package seed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// IndexBucketSeed finds BackupBuckets by the Seed that uses them.
const IndexBucketSeed = "spec.seedName"

// Reasons of the condition BackupBucketsReady.
const (
	reasonBucketsAvailable   = "BackupBucketsAvailable"
	reasonBucketsError       = "BackupBucketsError"
	reasonBucketsProgressing = "BackupBucketsProgressing"
	reasonBucketsMissing     = "BackupBucketsMissing"
)

// BackupBuckets sums up the state of the buckets of every Seed.
type BackupBuckets struct {
	Garden client.Client // Cached reads, direct writes.
	Clock  clock.PassiveClock
}

// SetupWithManager registers the controller.
func (r *BackupBuckets) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1beta1.BackupBucket{}, IndexBucketSeed, SeedOfBucket)
	if err != nil {
		return fmt.Errorf("index BackupBuckets: %w", err)
	}
	toSeed := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (out []reconcile.Request) {
		for _, name := range SeedOfBucket(o) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		}
		return out
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("seed-backupbuckets").
		For(&corev1beta1.Seed{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, conditionLost))).
		Watches(&corev1beta1.BackupBucket{}, toSeed).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// conditionLost passes updates by which another writer of conditions has dropped ours.
var conditionLost = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	seed, ok := e.ObjectNew.(*corev1beta1.Seed)
	return ok && seed.Spec.Backup != nil && !slices.ContainsFunc(seed.Status.Conditions, func(c corev1beta1.Condition) bool {
		return c.Type == corev1beta1.SeedBackupBucketsReady
	})
}}

// SeedOfBucket is the function of the index.
func SeedOfBucket(o client.Object) []string {
	if name := o.(*corev1beta1.BackupBucket).Spec.SeedName; name != nil {
		return []string{*name}
	}
	return nil
}

// Reconcile writes the condition of one Seed.
func (r *BackupBuckets) Reconcile(ctx context.Context, seed *corev1beta1.Seed) (reconcile.Result, error) {
	var buckets corev1beta1.BackupBucketList
	if err := r.Garden.List(ctx, &buckets, client.MatchingFields{IndexBucketSeed: seed.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list BackupBuckets of Seed %q: %w", seed.Name, err)
	}
	before := seed.DeepCopy()
	if seed.Spec.Backup == nil && len(buckets.Items) == 0 {
		seed.Status.Conditions = slices.DeleteFunc(slices.Clone(seed.Status.Conditions), func(c corev1beta1.Condition) bool {
			return c.Type == corev1beta1.SeedBackupBucketsReady
		})
	} else {
		status, reason, message := judgeBuckets(buckets.Items)
		seed.Status.Conditions = setCondition(seed.Status.Conditions, corev1beta1.SeedBackupBucketsReady, status, reason, message, r.Clock.Now())
	}
	return reconcile.Result{}, patchConditions(ctx, r.Garden, seed, before)
}

// judgeBuckets sums buckets up: an error in one outweighs work in progress in others.
func judgeBuckets(buckets []corev1beta1.BackupBucket) (status corev1beta1.ConditionStatus, reason, message string) {
	if len(buckets) == 0 {
		return corev1beta1.ConditionUnknown, reasonBucketsMissing, "The backup bucket has not been created yet."
	}
	var failed, working []string
	for _, b := range slices.SortedFunc(slices.Values(buckets), func(a, b corev1beta1.BackupBucket) int { return cmp.Compare(a.Name, b.Name) }) {
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
		return corev1beta1.ConditionProgressing, reasonBucketsProgressing, "Backup buckets are being worked on: " + strings.Join(working, ", ")
	}
	return corev1beta1.ConditionTrue, reasonBucketsAvailable, "All backup buckets are available."
}
