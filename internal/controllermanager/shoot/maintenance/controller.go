// Package maintenance maintains Shoots in their maintenance time windows. Package internal/maintenance decides the
// changes; this package reads, writes, and waits for the next window.
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	decision "hortus.dev/hortus/internal/maintenance"
)

// Reconciler maintains every Shoot once per window.
type Reconciler struct {
	Garden   client.Client // Cached reads, direct writes.
	Clock    clock.PassiveClock
	Jitter   decision.Jitter // Shared with the plan, which computes the exact times in advance.
	Options  decision.Options
	Recorder events.EventRecorder
	Profiles *Profiles
	Metrics  *Metrics // Optional.
}

// Reconcile maintains the Shoot if its window is open or maintenance is requested, and requeues for the next window.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	if shoot.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	now := r.Clock.Now()
	window := decision.WindowOf(shoot)
	next := reconcile.Result{RequeueAfter: window.UntilNext(now, shoot.Namespace+"/"+shoot.Name, false, r.Jitter)}
	if !window.Contains(now) && !decision.WantsMaintenance(shoot) {
		return next, nil
	}
	if err := r.maintain(ctx, shoot, now); err != nil {
		r.Metrics.failed()
		return reconcile.Result{}, fmt.Errorf("maintain: %w", err)
	}
	return next, nil
}

func (r *Reconciler) maintain(ctx context.Context, shoot *corev1beta1.Shoot, now time.Time) error {
	profile, err := r.Profiles.Of(ctx, r.Garden, shoot)
	if err != nil {
		return err
	}
	outcome := decision.Maintain(shoot, decision.NewDecider(profile), now, r.Options)
	if err := outcome.Decision.ImageErr; err != nil {
		log.FromContext(ctx).Error(err, "Machine images are not maintained")
	}
	current := shoot
	if outcome.Record() {
		refusal, err := r.tryOut(ctx, outcome.Shoot)
		if err != nil {
			return err
		}
		if refusal != nil {
			if err := r.recordRefusal(ctx, shoot, refusal, now); err != nil {
				return err
			}
			r.Metrics.maintained(&outcome, true)
			return nil
		}
		if current, err = r.patch(ctx, shoot, func(s *corev1beta1.Shoot) {
			s.Status.LastMaintenance = outcome.LastMaintenance(now)
		}); err != nil {
			return err
		}
	}
	updated := outcome.Shoot
	updated.ResourceVersion = current.ResourceVersion // Still conflicts with writes by others.
	if err := r.Garden.Update(ctx, updated); err != nil {
		r.warn(shoot, corev1beta1.EventMaintenanceFailed, err.Error())
		return fmt.Errorf("update Shoot: %w", err)
	}
	r.Metrics.maintained(&outcome, false)
	if outcome.Record() {
		log.FromContext(ctx).Info("Maintained Shoot", "changes", outcome.LastMaintenance(now).Description,
			"failed", outcome.Failed())
	} else {
		log.FromContext(ctx).V(1).Info("Maintained Shoot without changes of its specification")
	}
	if settled := decision.Settle(current.Status.LastMaintenance, outcome.Record()); settled != nil {
		current.ResourceVersion = updated.ResourceVersion
		if _, err := r.patch(ctx, current, func(s *corev1beta1.Shoot) { s.Status.LastMaintenance = settled }); err != nil {
			return err
		}
	}
	for _, e := range outcome.Events() {
		r.record(shoot, e)
	}
	return nil
}

// tryOut sends the changes to the API server as a dry run, before anything is recorded. Only a response about the
// changes is a refusal; everything else is an error, to be retried.
func (r *Reconciler) tryOut(ctx context.Context, shoot *corev1beta1.Shoot) (refusal, err error) {
	err = r.Garden.Update(ctx, shoot.DeepCopy(), client.DryRunAll)
	if err == nil {
		return nil, nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil, fmt.Errorf("dry-run changes: %w", err)
	}
	switch status.Status().Code {
	case http.StatusConflict, http.StatusNotFound, http.StatusUnauthorized, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return nil, fmt.Errorf("dry-run changes: %w", err)
	}
	return err, nil
}

// recordRefusal ends a maintenance whose changes the API server rejects. The next window tries again.
func (r *Reconciler) recordRefusal(ctx context.Context, shoot *corev1beta1.Shoot, refusal error, now time.Time) error {
	log.FromContext(ctx).Info("Maintenance was refused", "reason", refusal.Error())
	entry := decision.Refused(now, refusal)
	if _, err := r.patch(ctx, shoot, func(s *corev1beta1.Shoot) {
		decision.ClearRequest(s)
		s.Status.LastMaintenance = entry
	}); err != nil {
		return err
	}
	r.warn(shoot, corev1beta1.EventMaintenanceFailed, *entry.FailureReason)
	return nil
}

// patch changes the status and annotations. It fails with a conflict if the Shoot has changed since it was read.
func (r *Reconciler) patch(
	ctx context.Context, shoot *corev1beta1.Shoot, change func(*corev1beta1.Shoot),
) (*corev1beta1.Shoot, error) {
	changed := shoot.DeepCopy()
	change(changed)
	patch := client.MergeFromWithOptions(shoot, client.MergeFromWithOptimisticLock{})
	if err := r.Garden.Status().Patch(ctx, changed, patch); err != nil {
		return nil, fmt.Errorf("patch status of Shoot: %w", err)
	}
	return changed, nil
}

func (r *Reconciler) warn(shoot runtime.Object, reason, message string) {
	r.record(shoot, decision.Event{Warning: true, Reason: reason, Message: message})
}

// maxNote is the maximum length of an event's note in bytes.
const maxNote = 1024

func (r *Reconciler) record(shoot runtime.Object, e decision.Event) {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	note := e.Message
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	r.Recorder.Eventf(shoot, nil, kind, e.Reason, "Reconcile", "%s", note)
}
