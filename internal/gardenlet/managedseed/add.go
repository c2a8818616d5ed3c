package managedseed

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/reconnect"
)

// AddToManager registers the controller. The manager's cache is for the garden, and holds the ManagedSeeds whose Shoots
// are in the Seed.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	ofShoot := func(ctx context.Context, shoot client.Object) []reconcile.Request {
		return requests(ctx, mgr.GetClient(), shoot)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("managedseed").
		For(&seedmanagementv1alpha1.ManagedSeed{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1beta1.Shoot{}, handler.EnqueueRequestsFromMapFunc(ofShoot), builder.WithPredicates(operated)).
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("add controller of ManagedSeeds: %w", err)
	}
	return nil
}

// operated passes Shoots of the namespace garden whose last operation or Seed has changed. Shoots elsewhere cannot be
// Seeds.
var operated = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	old, was := e.ObjectOld.(*corev1beta1.Shoot)
	now, is := e.ObjectNew.(*corev1beta1.Shoot)
	return was && is && now.Namespace == corev1beta1.GardenNamespace &&
		(!equality.Semantic.DeepEqual(old.Status.LastOperation, now.Status.LastOperation) ||
			!equality.Semantic.DeepEqual(old.Status.SeedName, now.Status.SeedName))
}}

// requests returns the ManagedSeeds of a Shoot.
func requests(ctx context.Context, cache client.Reader, shoot client.Object) []reconcile.Request {
	var list seedmanagementv1alpha1.ManagedSeedList
	if err := cache.List(ctx, &list, client.InNamespace(shoot.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list ManagedSeeds", "Shoot", shoot.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if of := list.Items[i].Spec.Shoot; of != nil && of.Name == shoot.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
