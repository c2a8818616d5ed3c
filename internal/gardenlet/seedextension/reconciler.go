package seedextension

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/reconnect"
)

// Reconciler maintains the Extensions of its seed.
type Reconciler struct {
	Garden   client.Client // Direct reads.
	Seed     client.Client // Direct reads and writes.
	Clock    clock.PassiveClock
	SeedName string
}

// AddToManager registers the controller. The manager's cache is for the garden.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster) error {
	own := []reconcile.Request{{NamespacedName: client.ObjectKey{Name: r.SeedName}}}
	object := &metav1.PartialObjectMetadata{} // Only the event matters, not the content.
	object.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(extensionsv1alpha1.ExtensionKind))
	inGarden := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if o.GetNamespace() != corev1beta1.GardenNamespace {
			return nil
		}
		return own
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("seed-extension").
		// A deletion changes the generation, too.
		For(&corev1beta1.Seed{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1beta1.ControllerRegistration{},
			handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return own }),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind[client.Object](seed.GetCache(), object, inGarden)).
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile creates and deletes Extensions, and repeats failed requests.
func (r *Reconciler) Reconcile(ctx context.Context, seed *corev1beta1.Seed) (reconcile.Result, error) {
	if seed.Name != r.SeedName {
		return reconcile.Result{}, nil
	}
	registrations := &corev1beta1.ControllerRegistrationList{}
	if err := r.Garden.List(ctx, registrations); err != nil {
		return reconcile.Result{}, fmt.Errorf("list ControllerRegistrations: %w", err)
	}
	present := &extensionsv1alpha1.ExtensionList{}
	if err := r.Seed.List(ctx, present, client.InNamespace(corev1beta1.GardenNamespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("list Extensions of the seed: %w", err)
	}
	now := r.Clock.Now()
	var retry time.Time
	note := func(progress extensionobject.Progress) {
		if at := progress.RetryAt; !at.IsZero() && (retry.IsZero() || at.Before(retry)) {
			retry = at
		}
	}
	all := wanted(seed, registrations.Items)
	for _, e := range all {
		progress, err := extensionobject.Ensure(ctx, r.Seed, extensionobject.Wanted{Object: e}, now)
		if err != nil {
			return reconcile.Result{}, err
		}
		note(progress)
	}
	for i := range present.Items {
		e := &present.Items[i]
		named := slices.ContainsFunc(all, func(w *extensionsv1alpha1.Extension) bool { return w.Name == e.Name })
		if named || e.Spec.GetClass() != extensionsv1alpha1.ClassSeed {
			continue
		}
		progress, err := extensionobject.Delete(ctx, r.Seed, e, time.Time{}, now)
		if err != nil {
			return reconcile.Result{}, err
		}
		note(progress)
	}
	if retry.IsZero() {
		return reconcile.Result{}, nil // Changes of the objects trigger the next reconciliation.
	}
	return reconcile.Result{RequeueAfter: max(retry.Sub(now), time.Second)}, nil
}
