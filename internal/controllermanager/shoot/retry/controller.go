// Package retry retries Shoots that failed because a rate limit of the infrastructure was exceeded, which is temporary.
package retry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
)

// Name of the controller.
const Name = "shoot-retry"

// Default time between failure and retry. The jitter keeps many Shoots from exceeding the limit again.
const (
	DefaultPeriod = 10 * time.Minute
	DefaultJitter = 5 * time.Minute
)

// Reconciler requests retries.
type Reconciler struct {
	Garden    client.Client
	Clock     clock.PassiveClock
	Period    time.Duration
	MaxJitter time.Duration
	Jitter    maintenance.Jitter
}

// Reconcile waits until the failure is old enough, then sets the operation annotation.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	if !rateLimited(shoot) {
		return reconcile.Result{}, nil
	}
	failed := shoot.Status.LastOperation.LastUpdateTime.Time
	jitter := time.Duration(r.Jitter(shoot.Namespace+"/"+shoot.Name, failed) * float64(r.MaxJitter))
	if wait := failed.Add(r.Period + jitter).Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	log.FromContext(ctx).Info("Retrying Shoot after a rate limit")
	before := shoot.DeepCopy()
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	shoot.Annotations[corev1beta1.AnnotationOperation] = corev1beta1.OperationRetry
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Garden.Patch(ctx, shoot, patch); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("request a retry: %w", err)
	}
	return reconcile.Result{}, nil
}

// rateLimited reports whether the current generation of the Shoot has failed because of a rate limit.
func rateLimited(shoot *corev1beta1.Shoot) bool {
	last := shoot.Status.LastOperation
	return last != nil && last.State == corev1beta1.LastOperationStateFailed &&
		shoot.Generation == shoot.Status.ObservedGeneration &&
		slices.ContainsFunc(shoot.Status.LastErrors, func(e corev1beta1.LastError) bool {
			return slices.Contains(e.Codes, corev1beta1.ErrorInfraRateLimitsExceeded)
		})
}

// AddToManager adds the controller to the manager.
func (r *Reconciler) AddToManager(mgr manager.Manager, concurrentSyncs int) error {
	failed := func(object client.Object) bool {
		shoot, ok := object.(*corev1beta1.Shoot)
		return ok && rateLimited(shoot)
	}
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		For(&corev1beta1.Shoot{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc:  func(e event.CreateEvent) bool { return failed(e.Object) },
			UpdateFunc:  func(e event.UpdateEvent) bool { return failed(e.ObjectNew) && !failed(e.ObjectOld) },
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
