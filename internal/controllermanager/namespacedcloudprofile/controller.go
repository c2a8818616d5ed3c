// Package namespacedcloudprofile renders every NamespacedCloudProfile: the parent with its own changes.
//
// Trigger: NamespacedCloudProfiles and their parents. Writes: status.cloudProfileSpec and observedGeneration.
package namespacedcloudprofile

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/kube"
)

// IndexParent finds NamespacedCloudProfiles by their parent.
const IndexParent = "spec.parent.name"

// Reconciler keeps the rendered profiles up to date.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1beta1.NamespacedCloudProfile{}, IndexParent,
		Parent); err != nil {
		return fmt.Errorf("index NamespacedCloudProfiles: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("namespacedcloudprofile").
		For(&corev1beta1.NamespacedCloudProfile{}).
		Watches(&corev1beta1.CloudProfile{}, handler.EnqueueRequestsFromMapFunc(r.children),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("create NamespacedCloudProfile controller: %w", err)
	}
	return nil
}

// Parent returns the values of the index.
func Parent(o client.Object) []string {
	return []string{o.(*corev1beta1.NamespacedCloudProfile).Spec.Parent.Name}
}

// children returns the NamespacedCloudProfiles of a CloudProfile.
func (r *Reconciler) children(ctx context.Context, parent client.Object) []reconcile.Request {
	return kube.RequestsFor(ctx, r.Garden, &corev1beta1.NamespacedCloudProfileList{},
		client.MatchingFields{IndexParent: parent.GetName()}, client.UnsafeDisableDeepCopy)
}

// Reconcile renders one profile.
func (r *Reconciler) Reconcile(
	ctx context.Context, profile *corev1beta1.NamespacedCloudProfile,
) (reconcile.Result, error) {
	parent := &corev1beta1.CloudProfile{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Name: profile.Spec.Parent.Name}, parent); err != nil {
		return reconcile.Result{}, fmt.Errorf("read parent CloudProfile %q: %w", profile.Spec.Parent.Name, err)
	}
	before := profile.DeepCopy()
	// An extension may already have merged its part of the configuration; this controller merges only the typed fields.
	config := before.Status.CloudProfileSpec.ProviderConfig
	profile.Status.CloudProfileSpec = cloudprofile.Merge(&parent.Spec, &profile.Spec)
	if profile.Spec.ProviderConfig != nil && config != nil && before.Status.ObservedGeneration == profile.Generation {
		profile.Status.CloudProfileSpec.ProviderConfig = config
	}
	profile.Status.ObservedGeneration = profile.Generation
	return reconcile.Result{}, kube.PatchStatus(ctx, r.Garden, profile, before)
}
