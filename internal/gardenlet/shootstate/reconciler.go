package shootstate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
)

const (
	// minPause is the minimum time between two passes over a Shoot. A roll-out of machines changes something every second.
	minPause = 10 * time.Second
	// bytesPerSecond is what the writes of one Shoot may cost etcd, which stores a ShootState as a whole. The pause for
	// the largest state, 40 s, is below the minute after which changes reach the backups of the Shoot's etcd: a key is
	// saved before a backup depends on it.
	bytesPerSecond = 512 << 10
)

// Reasons of events on Shoots.
const (
	EventTooLarge = "ShootStateTooLarge"
	EventKept     = "ShootStateKept"
	EventMissing  = "ShootStateIncomplete"

	actionSave = "SaveShootState"
)

// Reconciler keeps the ShootStates of one seed current.
type Reconciler struct {
	Garden client.Client // Direct reads: Decide needs the newest status.
	Shoots client.Reader // From the cache, for their existence.
	Clock  clock.PassiveClock
	Events events.EventRecorder
	States *States
	// SyncPeriod is the time after which everything is compared without an event.
	SyncPeriod time.Duration
	// Jitter spreads these comparisons.
	Jitter maintenance.Jitter

	mu     sync.Mutex
	passes map[types.NamespacedName]pass
}

// pass is the last one over a Shoot.
type pass struct {
	// next is the earliest time of the next one.
	next time.Time
	// compared is the time of the last check that nobody else has written the ShootState.
	compared time.Time
}

// Reconcile saves the state of one Shoot if it may be written.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if pause := r.pause(req.NamespacedName); pause > 0 {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	shoot := &corev1beta1.Shoot{}
	err := r.Garden.Get(ctx, req.NamespacedName, shoot)
	if apierrors.IsForbidden(err) {
		// A gardenlet may not read a Shoot that has gone. One of its own is forbidden, too, until the API server has seen
		// its seed.
		if cached := r.Shoots.Get(ctx, req.NamespacedName, shoot); apierrors.IsNotFound(cached) {
			err = cached
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read Shoot %s: %w", req.NamespacedName, err)
	}
	if reason, ok := Decide(shoot, r.States.SeedName); !ok {
		ctrl.LoggerFrom(ctx).V(1).Info("Not saving the state", "reason", reason)
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	outcome, err := r.save(ctx, shoot)
	if err != nil {
		return r.failed(shoot, err)
	}
	if outcome.Written > 0 {
		ctrl.LoggerFrom(ctx).Info("Saved the state", "bytes", outcome.Bytes, "written", outcome.Written)
	}
	if len(outcome.Missing) > 0 {
		r.warn(shoot, EventMissing, "Extensions refer to objects that do not exist: "+describe(outcome.Missing))
	}
	return reconcile.Result{RequeueAfter: r.period(shoot)}, nil
}

func (r *Reconciler) save(ctx context.Context, shoot *corev1beta1.Shoot) (Outcome, error) {
	now, key := r.Clock.Now(), client.ObjectKeyFromObject(shoot)
	r.mu.Lock()
	p := r.passes[key]
	r.mu.Unlock()
	var outcome Outcome
	var err error
	if now.Sub(p.compared) >= r.SyncPeriod {
		if err = r.States.refresh(ctx, shoot); err == nil {
			p.compared = now
		}
	}
	if err == nil {
		outcome, err = r.States.Save(ctx, shoot)
	}
	p.next = now.Add(pauseAfter(outcome.Bytes))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passes == nil {
		r.passes = map[types.NamespacedName]pass{}
	}
	r.passes[key] = p
	return outcome, err
}

// period until the next comparison without an event, a tenth longer for some Shoots than for others.
func (r *Reconciler) period(shoot *corev1beta1.Shoot) time.Duration {
	return r.SyncPeriod + time.Duration(r.Jitter(string(shoot.UID), r.Clock.Now())*float64(r.SyncPeriod/10))
}

// failed reports errors to users that another attempt will not solve. What is too large may shrink by a change, which
// is an event.
func (r *Reconciler) failed(shoot *corev1beta1.Shoot, err error) (reconcile.Result, error) {
	var tooLarge *TooLargeError
	switch {
	case errors.As(err, &tooLarge):
		r.warn(shoot, EventTooLarge, "ShootState is not updated: "+err.Error())
	case errors.Is(err, ErrNothingLeft):
		r.warn(shoot, EventKept, err.Error())
	default:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.SyncPeriod}, nil
}

func (r *Reconciler) warn(shoot *corev1beta1.Shoot, reason, note string) {
	r.Events.Eventf(shoot, nil, corev1.EventTypeWarning, reason, actionSave, "%s", note)
}

// maxDescribed is how many references an event names.
const maxDescribed = 5

func describe(missing []Reference) string {
	var out []string
	for _, ref := range missing[:min(len(missing), maxDescribed)] {
		out = append(out, ref.Kind+" "+ref.Name)
	}
	slices.Sort(out)
	if n := len(missing) - maxDescribed; n > 0 {
		out = append(out, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(out, ", ")
}

// pauseAfter is how long a Shoot is left alone after a pass.
func pauseAfter(bytes int) time.Duration {
	return max(minPause, time.Duration(bytes)*time.Second/bytesPerSecond)
}

func (r *Reconciler) pause(key types.NamespacedName) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passes[key].next.Sub(r.Clock.Now())
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	delete(r.passes, key)
	r.mu.Unlock()
	r.States.Forget(key)
}
