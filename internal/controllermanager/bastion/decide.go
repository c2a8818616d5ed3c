package bastion

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
)

// decision says whether a Bastion is deleted.
type decision struct {
	// Reason for the deletion; "" keeps the Bastion.
	Reason string
	// CheckAt is when a Bastion that is kept expires.
	CheckAt time.Time
}

// decide decides about a Bastion that is not being deleted. A Shoot that is nil does not exist.
func decide(bastion *operationsv1alpha1.Bastion, shoot *corev1beta1.Shoot, now time.Time) decision {
	if reason := shootReason(bastion, shoot); reason != "" {
		return decision{Reason: reason}
	}
	expires := bastion.CreationTimestamp.Add(operationsv1alpha1.BastionMaxLifetime)
	if !now.Before(expires) {
		return decision{Reason: fmt.Sprintf("it is older than %v", operationsv1alpha1.BastionMaxLifetime)}
	}
	if at := bastion.Status.ExpirationTimestamp; at != nil {
		if !now.Before(at.Time) {
			return decision{Reason: "no keepalive since " + lastBeat(bastion)}
		}
		if at.Time.Before(expires) {
			expires = at.Time
		}
	}
	return decision{CheckAt: expires}
}

// shootReason is why the Shoot cannot have the Bastion, or "".
func shootReason(bastion *operationsv1alpha1.Bastion, shoot *corev1beta1.Shoot) string {
	switch {
	case shoot == nil:
		return "its Shoot does not exist"
	case shoot.DeletionTimestamp != nil:
		return "its Shoot is being deleted"
	case ptr.Deref(shoot.Spec.SeedName, "") != ptr.Deref(bastion.Spec.SeedName, ""):
		return "its Shoot moves to another Seed"
	case !shoot.SSHAccess():
		return "its Shoot has no SSH access"
	}
	return ""
}

// abandoned reports whether the Seed of a Bastion has lost the control plane of the Shoot: an operator has declared the
// Seed gone, or another one runs the control plane. Before a hand-over the machines of Bastions are removed. A Shoot
// that does not exist proves nothing: the gardenlet removes the machine.
func abandoned(bastion *operationsv1alpha1.Bastion, shoot *corev1beta1.Shoot) bool {
	if shoot == nil || ptr.Equal(shoot.Spec.SeedName, bastion.Spec.SeedName) {
		return false
	}
	return shoot.SourceIsDead() || !ptr.Equal(shoot.Status.SeedName, bastion.Spec.SeedName)
}

func lastBeat(bastion *operationsv1alpha1.Bastion) string {
	if at := bastion.Status.LastHeartbeatTimestamp; at != nil {
		return at.UTC().Format(time.RFC3339)
	}
	return "its creation"
}
