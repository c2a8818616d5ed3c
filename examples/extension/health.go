package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/managedresource"
)

// health keeps the condition SystemComponentsHealthy of Extensions: whether the message is in the Shoot. The gardenlet
// merges it into the Shoot's condition as long as the heartbeat is fresh.
type health struct {
	seed  client.Client
	clock clock.PassiveClock
}

func (h *health) setupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("health").
		For(&extensionsv1alpha1.Extension{},
			builder.WithPredicates(extension.HasTypeAndClass(extensionType, extensionsv1alpha1.ClassShoot))).
		Watches(&resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(extensionOf)).
		Complete(reconcile.AsReconciler(h.seed, h))
}

// Reconcile sets the condition of one Extension that works.
func (h *health) Reconcile(ctx context.Context, e *extensionsv1alpha1.Extension) (reconcile.Result, error) {
	last := e.Status.LastOperation
	if !e.DeletionTimestamp.IsZero() || last == nil || last.Type == corev1beta1.LastOperationTypeMigrate {
		return reconcile.Result{}, nil
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	err := h.seed.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: resourceName}, mr)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // Nothing has been handed over yet; lastOperation says why.
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read managed resource %q: %w", resourceName, err)
	}
	before := e.DeepCopy()
	e.Status.Conditions = corev1beta1.SetCondition(e.Status.Conditions, shown(mr), h.clock.Now())
	if err := h.seed.Status().Patch(ctx, e, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("patch status: %w", err)
	}
	return reconcile.Result{}, nil
}

// shown computes the condition.
func shown(mr *resourcesv1alpha1.ManagedResource) corev1beta1.Condition {
	if problem := managedresource.Problem(mr); problem != "" {
		return corev1beta1.Condition{
			Type: corev1beta1.ShootSystemComponentsHealthy, Status: corev1beta1.ConditionFalse,
			Reason: "NoticeMissing", Message: problem + ".",
		}
	}
	return corev1beta1.Condition{
		Type: corev1beta1.ShootSystemComponentsHealthy, Status: corev1beta1.ConditionTrue,
		Reason: "NoticeShown", Message: "The message is shown.",
	}
}
