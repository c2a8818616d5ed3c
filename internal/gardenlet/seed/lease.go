package seed

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// Lease shows the garden that the gardenlet is alive and reaches its seed. It is not renewed while the seed's API
// server does not answer, since nothing can be done for Shoots then.
type Lease struct {
	Garden   client.Client
	SeedREST rest.Interface // Of the seed.
	Clock    clock.WithTicker
	Name     string
	// Holder identifies the process.
	Holder string
	Period time.Duration

	alive atomic.Bool
	// renewed is the time of the last renewal. Only Start uses it.
	renewed time.Time
	// owner is the Seed, nil until it has been read. Only Start uses it.
	owner  *metav1.OwnerReference
	resume []chan event.GenericEvent
}

// outage is the time without a renewal after which one is reported. The garden gives a Seed up after 40 s; shorter
// ones, of an API server that is slow, must not cause more requests.
const outage = 20 * time.Second

// registrationPause is the time between attempts while the Seed is being registered, usually for the first time.
const registrationPause = 500 * time.Millisecond

// Alive reports whether the last renewal has succeeded.
func (l *Lease) Alive() bool { return l.alive.Load() }

// Resumed returns a channel with an event for the first renewal, and for each first one after an outage of 20 s or
// more. Controllers use it to continue at once, whatever their pauses are by then. Call it before Start.
func (l *Lease) Resumed() <-chan event.GenericEvent {
	c := make(chan event.GenericEvent, 1) // An event that nobody has received yet stands for all later ones.
	l.resume = append(l.resume, c)
	return c
}

// Start renews the Lease until ctx ends. It implements the manager's Runnable.
func (l *Lease) Start(ctx context.Context) error {
	ticker := l.Clock.NewTicker(l.Period)
	defer ticker.Stop()
	for {
		var registered <-chan time.Time
		if err := l.beat(ctx); apierrors.IsNotFound(err) && l.owner == nil {
			registered = l.Clock.After(registrationPause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		case <-registered:
		}
	}
}

// NeedLeaderElection: only the replica that does the work may claim to be alive.
func (l *Lease) NeedLeaderElection() bool { return true }

// beat renews the Lease once, and reports the end of an outage. It logs an error of the renewal, and returns it.
func (l *Lease) beat(ctx context.Context) error {
	if err := l.renew(ctx); err != nil {
		l.alive.Store(false)
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Failed to renew the Lease of the Seed")
		}
		return err
	}
	now, last := l.Clock.Now(), l.renewed
	l.renewed = now
	l.alive.Store(true)
	if now.Sub(last) < outage {
		return nil
	}
	log.FromContext(ctx).Info("Renewed the Lease of the Seed for the first time, or after an outage", "Seed", l.Name)
	for _, c := range l.resume {
		select {
		case c <- event.GenericEvent{Object: &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: l.Name}}}:
		default:
		}
	}
	return nil
}

func (l *Lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.Period, time.Second))
	defer cancel()
	if err := l.SeedREST.Get().AbsPath("/healthz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("query health of the seed's API server: %w", err)
	}
	now := metav1.NewMicroTime(l.Clock.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.SeedLeaseNamespace, Name: l.Name}}
	found, err := kube.Exists(ctx, l.Garden, lease)
	if err != nil {
		return err
	}
	if !found || l.owner == nil {
		if err := l.findOwner(ctx); err != nil {
			return err
		}
	}
	before := lease.DeepCopy()
	lease.OwnerReferences = []metav1.OwnerReference{*l.owner} // The Lease is removed with its Seed.
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(l.Holder), LeaseDurationSeconds: ptr.To(int32(2 * l.Period.Seconds())), RenewTime: &now,
	}
	if !found {
		// Gardenlets may create only objects that the request names, as only apply does.
		return kube.Apply(ctx, l.Garden, lease, fieldOwner)
	}
	if err := l.Garden.Patch(ctx, lease, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("renew Lease %q: %w", l.Name, err)
	}
	return nil
}

// findOwner reads the Seed. It is an error if it does not exist: not yet, or not any more.
func (l *Lease) findOwner(ctx context.Context) error {
	seed := &corev1beta1.Seed{}
	if err := l.Garden.Get(ctx, client.ObjectKey{Name: l.Name}, seed); err != nil {
		return fmt.Errorf("read the Seed of the Lease: %w", err)
	}
	l.owner = &metav1.OwnerReference{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Seed", Name: seed.Name, UID: seed.UID,
	}
	return nil
}
