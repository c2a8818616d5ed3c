package gardenaccess

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/reconnect"
)

// Reconciler renews all tokens of the garden in one seed when an operator requests it.
type Reconciler struct {
	Garden client.Client // Direct reads and writes.
	Seed   client.Client // Direct reads and writes.
	// SeedName is the own seed.
	SeedName string
}

// AddToManager registers the controller. The manager's cache is for the garden.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("garden-access").
		For(&corev1beta1.Seed{}, builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("create controller of access to the garden: %w", err)
	}
	return nil
}

// Reconcile makes the tokens due. It may stop after any write and be repeated.
func (r *Reconciler) Reconcile(ctx context.Context, seed *corev1beta1.Seed) (reconcile.Result, error) {
	if seed.Name != r.SeedName ||
		seed.Annotations[corev1beta1.AnnotationOperation] != corev1beta1.OperationRenewGardenAccessSecrets {
		return reconcile.Result{}, nil
	}
	secrets := &corev1.SecretList{}
	if err := r.Seed.List(ctx, secrets, client.MatchingLabels{
		resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor,
		resourcesv1alpha1.LabelClass:   resourcesv1alpha1.ClassGarden,
	}); err != nil {
		return reconcile.Result{}, fmt.Errorf("list Secrets with tokens of the garden: %w", err)
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		before := secret.DeepCopy()
		delete(secret.Annotations, resourcesv1alpha1.AnnotationTokenRenewTimestamp)
		if err := r.Seed.Patch(ctx, secret, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("request a new token in Secret %s: %w", client.ObjectKeyFromObject(secret),
				err)
		}
	}
	ctrl.LoggerFrom(ctx).Info("Requested new tokens of the garden", "Secrets", len(secrets.Items))
	return reconcile.Result{}, kube.RemoveAnnotation(ctx, r.Garden, seed, corev1beta1.AnnotationOperation,
		corev1beta1.OperationRenewGardenAccessSecrets)
}
