package nodeagent

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	leaseDurationSeconds = 40
	leasePeriod          = 10 * time.Second
	// leaseNodePeriod is the interval at which the Node that owns the Lease is looked up.
	leaseNodePeriod = time.Second
)

// LeaseKeeper renews a Lease as the heartbeat of the node agent; the care of the Shoot checks it.
type LeaseKeeper struct {
	Reader   client.Reader        // Cached.
	Leases   kubernetes.Interface // Not cached, since the Leases of others are not needed.
	HostName string
	Clock    clock.Clock
}

// Start implements manager.Runnable.
func (k *LeaseKeeper) Start(ctx context.Context) error {
	for {
		pause := leasePeriod
		node, err := FindNode(ctx, k.Reader, k.HostName)
		switch {
		case err == nil && node == nil:
			pause = leaseNodePeriod
		case err == nil:
			err = k.renew(ctx, node)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Lease cannot be renewed")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.Clock.After(pause):
		}
	}
}

func (k *LeaseKeeper) renew(ctx context.Context, node *corev1.Node) error {
	leases := k.Leases.CoordinationV1().Leases(metav1.NamespaceSystem)
	now := metav1.NewMicroTime(k.Clock.Now())
	name := corev1beta1.NodeAgentLeasePrefix + node.Name
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, // It is deleted with the Node.
			}}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(name), LeaseDurationSeconds: ptr.To[int32](leaseDurationSeconds), RenewTime: &now,
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create lease %q: %w", name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read lease %q: %w", name, err)
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = ptr.To(name),
		ptr.To[int32](leaseDurationSeconds), &now
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update lease %q: %w", name, err)
	}
	return nil
}
