package move

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// freshLease is the maximum age of a Seed's Lease at which the Seed is probably alive. Gardenlets renew it every few
// seconds.
const freshLease = 2 * time.Minute

// sign is the last sign of life of a Seed.
type sign struct {
	seed string
	// renewed is zero if there is no Lease.
	renewed time.Time
	// ready is the condition GardenletReady; nil if there is none.
	ready *corev1beta1.Condition
}

func lastSign(ctx context.Context, garden client.Client, name string) (sign, error) {
	s := sign{seed: name}
	lease := &coordinationv1.Lease{}
	err := garden.Get(ctx, client.ObjectKey{Namespace: corev1beta1.SeedLeaseNamespace, Name: name}, lease)
	if client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("read Lease %s/%s: %w", corev1beta1.SeedLeaseNamespace, name, err)
	}
	if lease.Spec.RenewTime != nil {
		s.renewed = lease.Spec.RenewTime.Time
	}
	seed := &corev1beta1.Seed{}
	if err := garden.Get(ctx, client.ObjectKey{Name: name}, seed); apierrors.IsNotFound(err) {
		return s, nil
	} else if err != nil {
		return s, fmt.Errorf("read Seed %s: %w", name, err)
	}
	s.ready = corev1beta1.FindCondition(seed.Status.Conditions, corev1beta1.SeedGardenletReady)
	return s, nil
}

// describe explains what is known of the Seed and the consequences of declaring it dead.
func (s sign) describe(now time.Time) string {
	age := now.Sub(s.renewed).Round(time.Second)
	text := fmt.Sprintf("Seed %s is declared dead. ", s.seed)
	if s.renewed.IsZero() {
		text += "It has no Lease"
	} else {
		text += fmt.Sprintf("Its Lease was renewed %s ago, at %s", age, s.renewed.UTC().Format(time.RFC3339))
	}
	if s.ready == nil {
		text += fmt.Sprintf("; it has no condition %s.\n", corev1beta1.SeedGardenletReady)
	} else {
		text += fmt.Sprintf("; its condition %s is %s: %s\n", s.ready.Type, s.ready.Status, s.ready.Message)
	}
	if !s.renewed.IsZero() && age < freshLease {
		text += fmt.Sprintf(`WARNING: Seed %s seems to be alive. If it is, its API servers serve until their etcd learns of the new owner. What clients
write until then may be lost. A move without --source-is-dead loses nothing.
`, s.seed)
	}
	return text + `The destination takes over from the last backup. What is not in the last delta of the backups is lost. The API server
serves again after the fence time of etcd, 5 minutes by default: by then an etcd that is cut off has stopped.
`
}
