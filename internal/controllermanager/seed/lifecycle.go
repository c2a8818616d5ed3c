package seed

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/controllerregistration"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/reconnect"
)

const (
	fieldOwner     = "hortus-controller-manager"
	leaseNamespace = "gardener-system-seed-lease"
	// leaseGrace is how long a Lease may stay unrenewed: gardenlets renew it every few seconds, so this allows for a
	// restart.
	leaseGrace = 40 * time.Second

	reasonStatusUnknown = "StatusUnknown"
)

const conditionGardenletReady corev1beta1.ConditionType = "GardenletReady"

// Lifecycle monitors the heartbeat of every Seed.
type Lifecycle struct {
	Garden client.Client // Cached reads, direct writes.
	// Live reads the Lease of a gardenlet that seems to be silent: after an outage of the garden, the cache has the old
	// Leases of all gardenlets.
	Live  client.Reader
	Clock clock.PassiveClock
}

// SetupWithManager registers the controller.
func (r *Lifecycle) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("seed-lifecycle").
		For(&corev1beta1.Seed{}).
		Watches(&coordinationv1.Lease{},
			handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
				if o.GetNamespace() != leaseNamespace {
					return nil
				}
				return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetName()}}}
			})).
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile checks one Seed's heartbeat, and requeues it for the time at which the heartbeat would be overdue.
func (r *Lifecycle) Reconcile(ctx context.Context, seed *corev1beta1.Seed) (reconcile.Result, error) {
	if seed.DeletionTimestamp.IsZero() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "seed-" + seed.Name, Labels: map[string]string{"gardener.cloud/role": "seed"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(seed, corev1beta1.SchemeGroupVersion.WithKind("Seed")),
			},
		}}
		if err := kube.Apply(ctx, r.Garden, ns, fieldOwner); err != nil {
			return reconcile.Result{}, err
		}
	}
	verdict, err := r.judge(ctx, seed)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !verdict.overdue {
		return reconcile.Result{RequeueAfter: verdict.again}, nil
	}
	before := seed.DeepCopy()
	seed.Status.Conditions = setUnknown(seed.Status.Conditions, verdict.message, r.Clock.Now())
	if err := patchConditions(ctx, r.Garden, seed, before); err != nil {
		return reconcile.Result{}, err
	}
	if left := untilShootsUnknown(seed.Status.Conditions, r.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, r.forgetShoots(ctx, seed)
}

// judge the newest heartbeat. It is overdue only if the API server says so as well.
func (r *Lifecycle) judge(ctx context.Context, seed *corev1beta1.Seed) (v verdict, err error) {
	for _, leases := range []client.Reader{r.Garden, r.Live} {
		renewed, err := renewTime(ctx, leases, seed.Name)
		if err != nil {
			return verdict{}, err
		}
		if v = judge(renewed, seed.CreationTimestamp.Time, r.Clock.Now()); !v.overdue {
			break
		}
	}
	return v, nil
}

// renewTime returns the time of a gardenlet's last heartbeat; nil if there was none.
func renewTime(ctx context.Context, leases client.Reader, seedName string) (*time.Time, error) {
	lease := &coordinationv1.Lease{}
	err := leases.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: seedName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Lease of Seed %q: %w", seedName, err)
	}
	if err != nil || lease.Spec.RenewTime == nil {
		return nil, nil
	}
	return &lease.Spec.RenewTime.Time, nil
}

// forgetShoots sets the conditions of the Shoots of a Seed without heartbeat to Unknown: they are outdated.
func (r *Lifecycle) forgetShoots(ctx context.Context, seed *corev1beta1.Seed) error {
	var shoots corev1beta1.ShootList
	if err := r.Garden.List(ctx, &shoots, client.MatchingFields{controllerregistration.IndexStatusSeed: seed.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Shoots of Seed %q: %w", seed.Name, err)
	}
	var errs []error
	for i := range shoots.Items {
		known := &shoots.Items[i] // Shared with the cache, so only read.
		if allUnknown(known.Status.Conditions) && allUnknown(known.Status.Constraints) {
			continue
		}
		shoot := known.DeepCopy()
		shoot.Status.Conditions = unknownAll(shoot.Status.Conditions, r.Clock.Now())
		shoot.Status.Constraints = unknownAll(shoot.Status.Constraints, r.Clock.Now())
		errs = append(errs, patchConditions(ctx, r.Garden, shoot, known))
	}
	return errors.Join(errs...)
}

// verdict on a heartbeat.
type verdict struct {
	overdue bool
	message string
	again   time.Duration // Time until the next check, if it is not overdue.
}

// judge decides from the time of the last renewal, or of the Seed's creation if there was none.
func judge(renewed *time.Time, created, now time.Time) verdict {
	since, message := created, "The gardenlet has not sent a heartbeat yet."
	if renewed != nil {
		since, message = *renewed, fmt.Sprintf("The gardenlet has stopped sending heartbeats; the last one was at %s.",
			renewed.UTC().Format(time.RFC3339))
	}
	if left := since.Add(leaseGrace).Sub(now); left > 0 {
		return verdict{again: left}
	}
	return verdict{overdue: true, message: message}
}

// setUnknown returns the conditions with GardenletReady Unknown; a condition that already is stays unchanged.
func setUnknown(conditions []corev1beta1.Condition, message string, now time.Time) []corev1beta1.Condition {
	wanted := corev1beta1.Condition{
		Type: conditionGardenletReady, Status: corev1beta1.ConditionUnknown, Reason: reasonStatusUnknown, Message: message,
		LastTransitionTime: metav1.NewTime(now), LastUpdateTime: metav1.NewTime(now),
	}
	for i, c := range conditions {
		if c.Type != conditionGardenletReady {
			continue
		}
		if c.Status == wanted.Status {
			if c.Message == message {
				return conditions
			}
			wanted.LastTransitionTime = c.LastTransitionTime
		}
		changed := append([]corev1beta1.Condition(nil), conditions...)
		changed[i] = wanted
		return changed
	}
	return append(append([]corev1beta1.Condition(nil), conditions...), wanted)
}
