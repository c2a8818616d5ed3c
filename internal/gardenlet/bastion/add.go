package bastion

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/internal/reconnect"
)

// concurrentSyncs suits a controller that never waits.
const concurrentSyncs = 5

// AddToManager registers the controller. The manager's cache is for the garden, and holds the objects of the seed.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster) error {
	object := &metav1.PartialObjectMetadata{} // Only the event matters, not the content.
	object.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(extensionsv1alpha1.BastionKind))
	toGarden := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		namespace := o.GetLabels()[labelNamespace]
		if namespace == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: o.GetName()}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("bastion").
		// The controller itself writes the status. A deletion changes the generation, too.
		For(&operationsv1alpha1.Bastion{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1beta1.Shoot{}, handler.EnqueueRequestsFromMapFunc(r.ofShoot), builder.WithPredicates(changes)).
		WatchesRawSource(source.Kind[client.Object](seed.GetCache(), object, toGarden)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentSyncs, RateLimiter: reconnect.RateLimiter()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("add controller of Bastions: %w", err)
	}
	return nil
}

// changes passes every change of a Shoot, not only those from which on it can have a bastion, or cannot: the cache may
// miss such a change and its reversal, while the Bastion was reconciled in between.
var changes = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false }, // Bastions are reconciled when the controller starts.
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// ofShoot returns the Bastions of a Shoot.
func (r *Reconciler) ofShoot(ctx context.Context, shoot client.Object) []reconcile.Request {
	list := &operationsv1alpha1.BastionList{}
	if err := r.Cache.List(ctx, list, client.InNamespace(shoot.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Failed to list Bastions", "Shoot", shoot.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Spec.ShootRef.Name == shoot.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
