// Package hibernation hibernates Shoots and wakes them up according to their schedules.
package hibernation

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
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
	"hortus.dev/hortus/internal/version"
)

// Name of the controller.
const Name = "shoot-hibernation"

// slack is added to the time of a schedule, so that the controller does not reconcile just before it.
const slack = 100 * time.Millisecond

// Reconciler switches spec.hibernation.enabled on schedule.
type Reconciler struct {
	Garden   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// TriggerDeadline is how late a missed schedule is still acted on.
	TriggerDeadline time.Duration
}

// Reconcile acts on the most recent scheduled time, and requeues for the next one.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	h := shoot.Spec.Hibernation
	if shoot.DeletionTimestamp != nil || h == nil || len(h.Schedules) == 0 {
		return reconcile.Result{}, nil
	}
	schedules, err := maintenance.ParseSchedules(h.Schedules)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	now := r.Clock.Now()
	if !failedForGood(shoot) {
		if fire, ok := schedules.Last(since(shoot), now, r.TriggerDeadline); ok {
			if err := r.act(ctx, shoot, fire, now); err != nil {
				return reconcile.Result{}, err
			}
		}
	}
	next, ok := schedules.Next(now)
	if !ok {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: next.At.Sub(now) + slack}, nil
}

func (r *Reconciler) act(ctx context.Context, shoot *corev1beta1.Shoot, fire maintenance.Fire, now time.Time) error {
	if enabled := shoot.Spec.Hibernation.Enabled; enabled == nil && fire.Hibernate || enabled != nil &&
		*enabled != fire.Hibernate {
		before := shoot.DeepCopy()
		hibernate := fire.Hibernate
		shoot.Spec.Hibernation.Enabled = &hibernate
		// If the Shoot has changed since, its owner may have switched hibernation after the scheduled time.
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Garden.Patch(ctx, shoot, patch); err != nil {
			return fmt.Errorf("set hibernation to %t: %w", hibernate, err)
		}
		log.FromContext(ctx).Info("Switched hibernation", "enabled", hibernate, "scheduledFor", fire.At)
		reason, text := corev1beta1.EventWokenUp, "Shoot has been woken up by its schedule"
		if hibernate {
			reason, text = corev1beta1.EventHibernated, "Shoot has been hibernated by its schedule"
		}
		r.Recorder.Eventf(shoot, nil, corev1.EventTypeNormal, reason, "Reconcile", "%s", text)
	}
	before := shoot.DeepCopy()
	triggered := metav1.NewTime(now)
	shoot.Status.LastHibernationTriggerTime = &triggered
	if err := r.Garden.Status().Patch(ctx, shoot, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patch status of Shoot: %w", err)
	}
	return nil
}

// since returns the time after which schedules have not been acted on.
func since(shoot *corev1beta1.Shoot) time.Time {
	if last := shoot.Status.LastHibernationTriggerTime; last != nil {
		return last.Time
	}
	return shoot.CreationTimestamp.Time
}

// failedForGood reports whether the gardenlet has given up on the current spec, so that switching hibernation would not
// help.
func failedForGood(shoot *corev1beta1.Shoot) bool {
	last := shoot.Status.LastOperation
	return last != nil && last.State == corev1beta1.LastOperationStateFailed &&
		shoot.Generation == shoot.Status.ObservedGeneration && shoot.Status.Gardener.Version == version.Version
}

// AddToManager adds the controller to the manager.
func (r *Reconciler) AddToManager(mgr manager.Manager, concurrentSyncs int) error {
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		For(&corev1beta1.Shoot{}, builder.WithPredicates(Relevant())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentSyncs}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", Name, err)
	}
	return nil
}

// Relevant passes Shoots with schedules that are new or whose schedules have changed.
func Relevant() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return len(schedulesOf(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool {
			after := schedulesOf(e.ObjectNew)
			return len(after) > 0 && !reflect.DeepEqual(schedulesOf(e.ObjectOld), after)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func schedulesOf(object client.Object) []corev1beta1.HibernationSchedule {
	if shoot, ok := object.(*corev1beta1.Shoot); ok && shoot.Spec.Hibernation != nil {
		return shoot.Spec.Hibernation.Schedules
	}
	return nil
}
