package shoot

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

const (
	// minBackoff and maxBackoff bound the pauses between attempts of a failing operation.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// indexTechnicalID finds the Shoot that a namespace of the seed belongs to.
	indexTechnicalID = "status.technicalID"
)

// AddToManager registers the controller. The manager's cache is for the garden; what the passes wait for is watched in
// the seed.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster, concurrency int) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1beta1.Shoot{}, indexTechnicalID,
		func(o client.Object) []string {
			return []string{o.(*corev1beta1.Shoot).Status.TechnicalID}
		})
	if err != nil {
		return fmt.Errorf("index Shoots: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("shoot").
		For(&corev1beta1.Shoot{}, builder.WithPredicates(relevantUpdates)).
		Watches(&corev1beta1.BackupEntry{}, handler.EnqueueRequestsFromMapFunc(ofBackupEntry),
			builder.WithPredicates(entryUpdates)).
		Watches(&corev1beta1.Seed{}, handler.EnqueueRequestsFromMapFunc(r.ofSeed(mgr.GetClient())),
			builder.WithPredicates(emergencyEnds)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff,
				maxBackoff),
		})
	for _, o := range watched() {
		// Only that something changed matters here, so metadata is all that is kept.
		gvk, err := apiutil.GVKForObject(o, seed.GetScheme())
		if err != nil {
			return fmt.Errorf("watch the seed: %w", err)
		}
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(gvk)
		b.WatchesRawSource(source.Kind[client.Object](seed.GetCache(), metadata, r.toShoot(mgr.GetClient(), gvk)))
	}
	return b.Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// emergencyEnds passes the end of an emergency stop, after which all that has become due is done.
var emergencyEnds = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.(*corev1beta1.Seed).EmergencyStop() && !e.ObjectNew.(*corev1beta1.Seed).EmergencyStop()
	},
}

// ofSeed returns the Shoots of this gardenlet's Seed.
func (r *Reconciler) ofSeed(cache client.Reader) handler.MapFunc {
	return func(ctx context.Context, seed client.Object) []reconcile.Request {
		if seed.GetName() != r.SeedName {
			return nil
		}
		return kube.RequestsFor(ctx, cache, &corev1beta1.ShootList{}, client.UnsafeDisableDeepCopy)
	}
}

// watched are the kinds in control plane namespaces that passes wait for.
func watched() []client.Object {
	objects := []client.Object{
		&resourcesv1alpha1.ManagedResource{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &corev1.Secret{},
	}
	for _, kind := range extensionobject.Kinds {
		objects = append(objects, kind.New())
	}
	return objects
}

// relevantUpdates let pass what may change a decision. The status of a Shoot is written by its own reconciliation, so
// updates of nothing else are left out.
var relevantUpdates = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	old, ok1 := e.ObjectOld.(*corev1beta1.Shoot)
	now, ok2 := e.ObjectNew.(*corev1beta1.Shoot)
	return !ok1 || !ok2 || relevantUpdate(old, now)
}}

func relevantUpdate(old, now *corev1beta1.Shoot) bool {
	return old.Generation != now.Generation || (old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) ||
		!maps.Equal(old.Annotations, now.Annotations) || responsibleSeed(old) != responsibleSeed(now) ||
		wentBack(old, now) || movesOn(old, now)
}

// movesOn: both seeds of a move follow what the other one does, and whether the destination is ready.
func movesOn(old, now *corev1beta1.Shoot) bool {
	ready := func(s *corev1beta1.Shoot) bool {
		c := corev1beta1.FindCondition(s.Status.Constraints, corev1beta1.ShootReadyForMigration)
		return c != nil && c.Status == corev1beta1.ConditionTrue
	}
	return migrating(now) && (ready(old) != ready(now) ||
		!equality.Semantic.DeepEqual(old.Status.LastOperation, now.Status.LastOperation))
}

// toShoot leads events in control plane namespaces to their Shoots. Many come in bursts, and one pass looks at
// everything, so they are collected for a moment.
func (r *Reconciler) toShoot(
	garden client.Reader, kind schema.GroupVersionKind,
) handler.TypedEventHandler[client.Object, reconcile.Request] {
	enqueue := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if !strings.HasPrefix(o.GetNamespace(), corev1beta1.TechnicalIDPrefix) {
			return
		}
		r.seen.Observe(kind, o.GetResourceVersion())
		list := &corev1beta1.ShootList{}
		if err := garden.List(ctx, list, client.MatchingFields{indexTechnicalID: o.GetNamespace()}); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to find the Shoot of a namespace", "namespace", o.GetNamespace())
			return
		}
		for i := range list.Items {
			if unfinished(&list.Items[i]) {
				q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, burst)
			}
		}
	}
	return handler.TypedFuncs[client.Object, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[client.Object],
			q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[client.Object],
			q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[client.Object],
			q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(ctx, e.Object, q)
		},
	}
}

// burst is how long events are collected. It is below what a person notices and above what one apply takes.
const burst = 100 * time.Millisecond

// unfinished: events in the seed matter to the Shoot's operation.
func unfinished(shoot *corev1beta1.Shoot) bool {
	op := shoot.Status.LastOperation
	return waitsForManualPools(shoot) || op == nil || op.State == corev1beta1.LastOperationStateProcessing ||
		op.State == corev1beta1.LastOperationStateError || mayHeal(&shoot.Status)
}
