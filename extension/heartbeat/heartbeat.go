// Package heartbeat renews the Lease by which the gardenlet knows that an extension's conditions are fresh.
package heartbeat

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Interval is the contract's: conditions count as stale when the Lease is 5 minutes old.
const Interval = 30 * time.Second

// Beat renews the Lease at each interval. It runs on the leader only, the process that writes conditions.
type Beat struct {
	Client    client.Client
	Clock     clock.WithTicker
	Namespace string // Namespace of the extension.
	Holder    string // Name of the extension.
}

// NeedLeaderElection makes the manager start Beat on the leader.
func (b *Beat) NeedLeaderElection() bool { return true }

// Start renews the Lease until ctx ends. A failed renewal is logged and tried again at the next interval.
func (b *Beat) Start(ctx context.Context) error {
	ticker := b.Clock.NewTicker(Interval)
	defer ticker.Stop()
	for {
		if err := b.Renew(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Could not renew heartbeat")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Renew writes the current time into the Lease.
func (b *Beat) Renew(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: b.Namespace, Name: extensionsv1alpha1.HeartbeatLease,
	}}
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(b.Holder),
		LeaseDurationSeconds: ptr.To(int32(Interval.Seconds())),
		RenewTime:            ptr.To(metav1.NewMicroTime(b.Clock.Now())),
	}
	err := b.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if apierrors.IsNotFound(err) {
		lease.Spec = spec
		err = b.Client.Create(ctx, lease)
	} else if err == nil {
		before := lease.DeepCopy()
		lease.Spec = spec
		err = b.Client.Patch(ctx, lease, client.MergeFrom(before))
	}
	if err != nil {
		return fmt.Errorf("renew lease %s/%s: %w", b.Namespace, extensionsv1alpha1.HeartbeatLease, err)
	}
	return nil
}
