package backupbucket

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
)

const (
	// minBackoff and maxBackoff bound the pauses after errors of an API server. Extensions have pauses of their own.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// AddToManager registers the controller. The manager's cache is for the garden, and holds the objects of the seed.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster, concurrency int) error {
	object := &metav1.PartialObjectMetadata{} // Only the event matters, not the content.
	object.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(extensionsv1alpha1.BackupBucketKind))
	sameName := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetName()}}}
	})
	toBucket := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.(*corev1beta1.BackupEntry).Spec.BucketName}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("backupbucket").
		// The controller itself writes the status. A deletion changes the generation, too.
		For(&corev1beta1.BackupBucket{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1beta1.BackupEntry{}, toBucket, builder.WithPredicates(deletions)).
		WatchesRawSource(source.Kind[client.Object](seed.GetCache(), object, sameName)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff,
				maxBackoff),
		}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("add controller of BackupBuckets: %w", err)
	}
	return nil
}

// deletions of entries may be what a bucket waits for.
var deletions = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
