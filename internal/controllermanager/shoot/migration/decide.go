package migration

import (
	"fmt"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Reasons of the constraint ReadyForMigration.
const (
	ReasonReady      = "DestinationSeedReady"
	ReasonUnready    = "DestinationSeedUnready"
	ReasonInDeletion = "DestinationSeedInDeletion"
)

// needed lists the conditions that a Seed must have to take over control planes.
var needed = []corev1beta1.ConditionType{
	corev1beta1.SeedGardenletReady, corev1beta1.SeedSystemComponentsHealthy, corev1beta1.SeedBackupBucketsReady,
}

// moving reports whether the control plane is on a different Seed than spec.seedName.
func moving(shoot *corev1beta1.Shoot) bool {
	on := ptr.Deref(shoot.Status.SeedName, "")
	return on != "" && shoot.Spec.SeedName != nil && *shoot.Spec.SeedName != on
}

// constraintFor returns the constraint of a Shoot that is to move to a Seed. destination is nil if the Seed does not
// exist.
func constraintFor(shoot *corev1beta1.Shoot, destination *corev1beta1.Seed) corev1beta1.Condition {
	c := corev1beta1.Condition{Type: corev1beta1.ShootReadyForMigration, Status: corev1beta1.ConditionFalse}
	name := ptr.Deref(shoot.Spec.SeedName, "")
	if destination == nil {
		c.Reason, c.Message = ReasonUnready, fmt.Sprintf("Seed %s does not exist.", name)
		return c
	}
	if destination.DeletionTimestamp != nil {
		c.Reason, c.Message = ReasonInDeletion, fmt.Sprintf("Seed %s is being deleted.", name)
		return c
	}
	if problem := unready(shoot, destination); problem != "" {
		c.Reason, c.Message = ReasonUnready, problem
		return c
	}
	c.Status, c.Reason = corev1beta1.ConditionTrue, ReasonReady
	c.Message = fmt.Sprintf("Seed %s can take over the control plane.", name)
	return c
}

// unready returns the reason why a Seed cannot take over a control plane, "" if it can.
func unready(shoot *corev1beta1.Shoot, seed *corev1beta1.Seed) string {
	switch version := shoot.Status.Gardener.Version; {
	case seed.Status.Gardener == nil:
		return fmt.Sprintf("The gardenlet of Seed %s has not registered its version yet.", seed.Name)
	case seed.Status.Gardener.Version != version && !shoot.SourceIsDead(): // A dead Seed cannot be updated first.
		return fmt.Sprintf("The gardenlet of Seed %s has version %s, the one that runs the control plane now has %s.",
			seed.Name, seed.Status.Gardener.Version, version)
	case seed.Status.ObservedGeneration != seed.Generation:
		return fmt.Sprintf("Seed %s has not been reconciled since its last change.", seed.Name)
	}
	for _, kind := range needed {
		c := corev1beta1.FindCondition(seed.Status.Conditions, kind)
		if c == nil {
			return fmt.Sprintf("Seed %s has no condition %s.", seed.Name, kind)
		}
		if c.Status != corev1beta1.ConditionTrue {
			return fmt.Sprintf("Condition %s of Seed %s is %s: %s", kind, seed.Name, c.Status, c.Message)
		}
	}
	return ""
}
