// Package migration maintains the constraint ReadyForMigration of Shoots whose control planes are to move to other
// Seeds. The gardenlet of the source begins when it is True.
package migration

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// Name of the controller.
const Name = "shoot-migration"

// unreadyPeriod is how often a Seed that is not ready is checked again.
const unreadyPeriod = 5 * time.Second

// Reconciler sets and removes the constraint.
type Reconciler struct {
	Garden client.Client
	Clock  clock.PassiveClock
}

// Reconcile checks one Shoot.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	before, result := shoot.DeepCopy(), reconcile.Result{}
	constraints := &shoot.Status.Constraints
	if !moving(shoot) {
		*constraints = corev1beta1.RemoveCondition(*constraints, corev1beta1.ShootReadyForMigration)
	} else {
		seed := &corev1beta1.Seed{}
		err := r.Garden.Get(ctx, client.ObjectKey{Name: *shoot.Spec.SeedName}, seed)
		switch {
		case apierrors.IsNotFound(err):
			seed = nil
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("read Seed %q: %w", *shoot.Spec.SeedName, err)
		}
		c := constraintFor(shoot, seed)
		if c.Status != corev1beta1.ConditionTrue {
			result.RequeueAfter = unreadyPeriod
		}
		*constraints = corev1beta1.SetCondition(*constraints, c, r.Clock.Now())
	}
	if err := kube.PatchSharedStatus(ctx, r.Garden, shoot, before); err != nil {
		return reconcile.Result{}, fmt.Errorf("write constraint %s: %w", corev1beta1.ShootReadyForMigration, err)
	}
	return result, nil
}

// AddToManager adds the controller to the manager.
func (r *Reconciler) AddToManager(mgr manager.Manager, concurrentSyncs int) error {
	relevant := func(object client.Object) bool {
		shoot, ok := object.(*corev1beta1.Shoot)
		return ok && (moving(shoot) ||
			corev1beta1.FindCondition(shoot.Status.Constraints, corev1beta1.ShootReadyForMigration) != nil)
	}
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		For(&corev1beta1.Shoot{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc:  func(e event.CreateEvent) bool { return relevant(e.Object) },
			UpdateFunc:  func(e event.UpdateEvent) bool { return relevant(e.ObjectNew) },
			DeleteFunc:  func(event.DeleteEvent) bool { return false },
			GenericFunc: func(event.GenericEvent) bool { return false },
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentSyncs}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", Name, err)
	}
	return nil
}
