package shootstate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// minBackoff and maxBackoff bound the pauses between attempts that fail.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// burst is how long events are collected: credentials and machines are made many at a time.
	burst = 100 * time.Millisecond
	// indexNamespace finds the Shoot that a namespace of the seed belongs to. The name is the controller's own, so that
	// it works without others.
	indexNamespace = "shootstate.namespace"
)

// AddToManager registers the controller. The manager's cache is for the garden; seed was created with CacheOptions.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cache.Cache, concurrency int) error {
	byNamespace := func(o client.Object) []string { return []string{o.(*corev1beta1.Shoot).Status.TechnicalID} }
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1beta1.Shoot{}, indexNamespace, byNamespace)
	if err != nil {
		return fmt.Errorf("index Shoots by namespace: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("shootstate").
		For(&corev1beta1.Shoot{}, builder.WithPredicates(r.relevantShoots())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff,
				maxBackoff),
		})
	for _, object := range watched() {
		b.WatchesRawSource(source.Kind(seed, object, toShoot(mgr.GetClient()), relevantObjects))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("add controller of ShootStates: %w", err)
	}
	return nil
}

// relevantShoots pass Shoots that may be written from now on, or no more, and those whose operation has succeeded: what
// the state of an extension refers to is not watched.
func (r *Reconciler) relevantShoots() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, ok1 := e.ObjectOld.(*corev1beta1.Shoot)
			now, ok2 := e.ObjectNew.(*corev1beta1.Shoot)
			if !ok1 || !ok2 {
				return true
			}
			_, before := Decide(old, r.States.SeedName)
			_, after := Decide(now, r.States.SeedName)
			return before != after || succeeded(now) && !succeeded(old)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func succeeded(shoot *corev1beta1.Shoot) bool {
	last := shoot.Status.LastOperation
	return last != nil && last.State == corev1beta1.LastOperationStateSucceeded
}

// relevantObjects pass objects of the seed whose part in a ShootState has changed.
var relevantObjects = predicate.TypedFuncs[client.Object]{
	CreateFunc: func(e event.TypedCreateEvent[client.Object]) bool { return checksum(e.Object) != "" },
	UpdateFunc: func(e event.TypedUpdateEvent[client.Object]) bool {
		return checksum(e.ObjectOld) != checksum(e.ObjectNew) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	},
	DeleteFunc:  func(e event.TypedDeleteEvent[client.Object]) bool { return checksum(e.Object) != "" },
	GenericFunc: func(event.TypedGenericEvent[client.Object]) bool { return false },
}

func checksum(o client.Object) string { return o.GetAnnotations()[annotationChecksum] }

// namespaceOf is the control plane namespace that an object belongs to. The name of a BackupEntry, which is in no
// namespace, begins with it.
func namespaceOf(o client.Object) string {
	if o.GetNamespace() != "" {
		return o.GetNamespace()
	}
	if i := strings.LastIndex(o.GetName(), "--"); i > 0 {
		return o.GetName()[:i]
	}
	return ""
}

// toShoot leads events in control plane namespaces to their Shoots.
func toShoot(garden client.Reader) handler.TypedEventHandler[client.Object, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, o client.Object, q queue) {
		namespace := namespaceOf(o)
		if !strings.HasPrefix(namespace, corev1beta1.TechnicalIDPrefix) {
			return
		}
		list := &corev1beta1.ShootList{}
		if err := garden.List(ctx, list, client.MatchingFields{indexNamespace: namespace}); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to find the Shoot of a namespace", "namespace", namespace)
			return
		}
		for i := range list.Items {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, burst)
		}
	}
	return handler.TypedFuncs[client.Object, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[client.Object], q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[client.Object], q queue) {
			enqueue(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[client.Object], q queue) { enqueue(ctx, e.Object, q) },
	}
}
