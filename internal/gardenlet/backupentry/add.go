package backupentry

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

const (
	// minBackoff and maxBackoff bound the pauses after errors of an API server. Extensions have pauses of their own.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// Indexes of the cache.
	indexName   = "metadata.name"
	indexBucket = "spec.bucketName"
)

// AddToManager registers the controller. The manager's cache is for the garden, and holds the objects of the seed.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster, concurrency int) error {
	for name, value := range map[string]func(*corev1beta1.BackupEntry) string{
		indexName:   func(e *corev1beta1.BackupEntry) string { return e.Name },
		indexBucket: func(e *corev1beta1.BackupEntry) string { return e.Spec.BucketName },
	} {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1beta1.BackupEntry{}, name,
			func(o client.Object) []string {
				return []string{value(o.(*corev1beta1.BackupEntry))}
			})
		if err != nil {
			return fmt.Errorf("index BackupEntries by %s: %w", name, err)
		}
	}
	by := func(index string) handler.MapFunc {
		return func(ctx context.Context, o client.Object) []reconcile.Request {
			return entriesBy(ctx, mgr.GetClient(), index, o.GetName())
		}
	}
	object := &metav1.PartialObjectMetadata{} // Only the event matters, not the content.
	object.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(extensionsv1alpha1.BackupEntryKind))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("backupentry").
		For(&corev1beta1.BackupEntry{}, builder.WithPredicates(relevantUpdates)).
		Watches(&corev1beta1.BackupBucket{}, handler.EnqueueRequestsFromMapFunc(by(indexBucket)),
			builder.WithPredicates(usableBuckets)).
		WatchesRawSource(source.Kind[client.Object](seed.GetCache(), object,
			handler.TypedEnqueueRequestsFromMapFunc(by(indexName)))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff,
				maxBackoff),
		}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("add controller of BackupEntries: %w", err)
	}
	return nil
}

func entriesBy(ctx context.Context, cache client.Reader, index, value string) []reconcile.Request {
	return kube.RequestsFor(ctx, cache, &corev1beta1.BackupEntryList{}, client.MatchingFields{index: value})
}

// relevantUpdates pass changes of the spec, requests, which change the generation, and a change of the responsible
// seed. All else in the status is written here.
var relevantUpdates = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	old, ok1 := e.ObjectOld.(*corev1beta1.BackupEntry)
	now, ok2 := e.ObjectNew.(*corev1beta1.BackupEntry)
	return !ok1 || !ok2 || old.Generation != now.Generation || responsible(old) != responsible(now)
}}

// usableBuckets pass buckets that entries may have waited for. At the start of the process all entries are looked at
// anyway.
var usableBuckets = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, ok1 := e.ObjectOld.(*corev1beta1.BackupBucket)
		now, ok2 := e.ObjectNew.(*corev1beta1.BackupBucket)
		return !ok1 || !ok2 || becameUsable(old, now)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
