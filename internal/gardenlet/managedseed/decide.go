package managedseed

import (
	"fmt"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// Reasons of the conditions are those of Events.
const (
	reasonReconciling    = corev1beta1.EventReconciling
	reasonReconciled     = corev1beta1.EventReconciled
	reasonReconcileError = corev1beta1.EventReconcileError
	reasonDeleting       = corev1beta1.EventDeleting
)

// shootReconciled is whether the Shoot is as its spec says, with nodes on which a gardenlet can run.
func shootReconciled(shoot *corev1beta1.Shoot) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: seedmanagementv1alpha1.ManagedSeedShootReconciled, Status: corev1beta1.ConditionFalse,
		Reason: reasonReconciling,
	}
	last := shoot.Status.LastOperation
	switch {
	case shoot.Status.IsHibernated:
		c.Message = fmt.Sprintf("Shoot %q is hibernated.", shoot.Name)
	case last == nil:
		c.Message = fmt.Sprintf("Shoot %q has not been created yet.", shoot.Name)
	case last.State != corev1beta1.LastOperationStateSucceeded:
		c.Message = fmt.Sprintf("Shoot %q: %s is %s: %s", shoot.Name, last.Type, last.State, last.Description)
	case last.Type == corev1beta1.LastOperationTypeMigrate || last.Type == corev1beta1.LastOperationTypeDelete:
		c.Message = fmt.Sprintf("Shoot %q: %s has succeeded.", shoot.Name, last.Type)
	default:
		c.Status, c.Reason = corev1beta1.ConditionTrue, reasonReconciled
		c.Message = fmt.Sprintf("Shoot %q is reconciled.", shoot.Name)
	}
	return c
}

// seedRegistered is whether the Seed exists and its gardenlet is as the ManagedSeed says. waits is what the
// installation or a change of the gardenlet waits for; empty if there is nothing to wait for.
func seedRegistered(name string, exists bool, waits string, err error) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: seedmanagementv1alpha1.SeedRegistered, Status: corev1beta1.ConditionFalse, Reason: reasonReconciling,
	}
	switch {
	case err != nil:
		c.Reason, c.Message = reasonReconcileError, err.Error()
	case exists:
		c.Status, c.Reason = corev1beta1.ConditionTrue, reasonReconciled
		c.Message = fmt.Sprintf("Seed %q is registered.", name)
		if waits != "" {
			c.Message += " Its gardenlet is being changed: " + waits
		}
	case waits != "":
		c.Message = waits
	default:
		c.Message = fmt.Sprintf("The gardenlet runs. It has not registered Seed %q yet.", name)
	}
	return c
}
