package seed

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/resourcemanager"
)

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster) error {
	own := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		switch o.GetNamespace() + "/" + o.GetName() {
		case gateway.Namespace + "/" + gateway.Name, corev1beta1.GardenNamespace + "/" + resourcemanager.Name:
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: r.Config.SeedConfig.Name}}}
		}
		return nil
	})
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: r.Config.SeedConfig.Name}}}
	})
	deployments := &metav1.PartialObjectMetadata{}
	deployments.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return ctrl.NewControllerManagedBy(mgr).
		Named("seed").
		// The controller itself writes the status; changes of the status by others do not matter.
		For(&corev1beta1.Seed{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1beta1.ControllerInstallation{}, all).
		// A deleted bucket is created again, or no longer blocks the deletion of the Seed.
		Watches(&corev1beta1.BackupBucket{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind[client.Object](seed.GetCache(), deployments, own)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}
