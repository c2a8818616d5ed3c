package seed

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/reconnect"
)

// AddToManager registers the controller. It also reconciles the Seed with each event of resumed, after an outage.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster, resumed <-chan event.GenericEvent) error {
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
	inDeletion := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		key, seed := client.ObjectKey{Name: r.Config.SeedConfig.Name}, &corev1beta1.Seed{}
		if err := mgr.GetClient().Get(ctx, key, seed); err != nil || seed.DeletionTimestamp == nil {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
	silenced := handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent,
		q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if becameSilent(e.ObjectOld.(*corev1beta1.Seed), e.ObjectNew.(*corev1beta1.Seed)) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)}, silentPause)
		}
	}}
	deployments := &metav1.PartialObjectMetadata{}
	deployments.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return ctrl.NewControllerManagedBy(mgr).
		Named("seed").
		// The controller itself writes the status; of what others write there, only GardenletReady matters.
		For(&corev1beta1.Seed{}, builder.WithPredicates(relevantSeeds)).
		Watches(&corev1beta1.Seed{}, silenced).
		Watches(&corev1beta1.ControllerInstallation{}, all).
		// A deleted bucket is created again, or no longer blocks the deletion of the Seed.
		Watches(&corev1beta1.BackupBucket{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// The deletion of the Seed waits for the last Shoot.
		Watches(&corev1beta1.Shoot{}, inDeletion, builder.WithPredicates(removals)).
		WatchesRawSource(source.Kind[client.Object](seed.GetCache(), deployments, own)).
		WatchesRawSource(source.Channel(resumed, all)).
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// relevantSeeds passes changes of the spec, and the beginning and end of an emergency stop.
var relevantSeeds = predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.(*corev1beta1.Seed).EmergencyStop() != e.ObjectNew.(*corev1beta1.Seed).EmergencyStop()
	},
})

var removals = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// silentPause is the time until GardenletReady is True again that the controller manager has set to Unknown although
// the Lease is renewed. They meet when an outage ends as it is noticed. If their clocks differ by more than the
// controller manager allows, they do so again and again, which the pause keeps from being a load.
const silentPause = 10 * time.Second

// becameSilent reports whether the controller manager has noticed an outage between two states of the Seed.
func becameSilent(old, now *corev1beta1.Seed) bool {
	unknown := func(s *corev1beta1.Seed) bool {
		c := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.SeedGardenletReady)
		return c != nil && c.Status == corev1beta1.ConditionUnknown
	}
	return unknown(now) && !unknown(old)
}
