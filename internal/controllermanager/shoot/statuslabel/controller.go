// Package statuslabel maintains a label that summarizes a Shoot's status, so that Shoots can be selected by it.
package statuslabel

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Name of the controller.
const Name = "shoot-status-label"

// Reconciler sets the label.
type Reconciler struct {
	Garden client.Client
}

// Reconcile computes the label and writes it if it has changed.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	if !outdated(shoot) {
		return reconcile.Result{}, nil
	}
	before := shoot.DeepCopy()
	if shoot.Labels == nil {
		shoot.Labels = map[string]string{}
	}
	shoot.Labels[corev1beta1.LabelShootStatus] = StatusOf(shoot)
	if err := r.Garden.Patch(ctx, shoot, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("set the status label: %w", err)
	}
	return reconcile.Result{}, nil
}

func outdated(shoot *corev1beta1.Shoot) bool {
	return shoot.Labels[corev1beta1.LabelShootStatus] != StatusOf(shoot)
}

// severity orders the statuses; the summary is the worst of them.
var severity = map[string]int{
	corev1beta1.ShootStatusHealthy:     0,
	corev1beta1.ShootStatusProgressing: 1,
	corev1beta1.ShootStatusUnknown:     2,
	corev1beta1.ShootStatusUnhealthy:   3,
}

// StatusOf summarizes the status of a Shoot: the worst of its conditions and its last operation. While a Shoot is being
// created or deleted only errors count, because its conditions cannot be good.
func StatusOf(shoot *corev1beta1.Shoot) string {
	last, clean := shoot.Status.LastOperation, len(shoot.Status.LastErrors) == 0
	if last == nil {
		return corev1beta1.ShootStatusHealthy
	}
	succeeded := last.State == corev1beta1.LastOperationStateSucceeded
	if last.Type == corev1beta1.LastOperationTypeCreate && !succeeded || last.Type == corev1beta1.LastOperationTypeDelete {
		return healthyIf(clean)
	}
	worst := healthyIf(succeeded)
	if last.State == corev1beta1.LastOperationStateProcessing {
		worst = healthyIf(clean)
	}
	for _, c := range shoot.Status.Conditions {
		if status := statusOf(c.Status); severity[status] > severity[worst] {
			worst = status
		}
	}
	return worst
}

func healthyIf(ok bool) string {
	if ok {
		return corev1beta1.ShootStatusHealthy
	}
	return corev1beta1.ShootStatusUnhealthy
}

func statusOf(c corev1beta1.ConditionStatus) string {
	switch c {
	case corev1beta1.ConditionTrue:
		return corev1beta1.ShootStatusHealthy
	case corev1beta1.ConditionProgressing:
		return corev1beta1.ShootStatusProgressing
	case corev1beta1.ConditionFalse:
		return corev1beta1.ShootStatusUnhealthy
	}
	return corev1beta1.ShootStatusUnknown
}

// AddToManager adds the controller to the manager.
func (r *Reconciler) AddToManager(mgr manager.Manager, concurrentSyncs int) error {
	relevant := func(object client.Object) bool {
		shoot, ok := object.(*corev1beta1.Shoot)
		return ok && outdated(shoot)
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
