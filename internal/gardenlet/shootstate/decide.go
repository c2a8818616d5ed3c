package shootstate

import (
	"fmt"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Decide reports whether the gardenlet of a seed may write the state of a Shoot, and if not, the reason.
func Decide(shoot *corev1beta1.Shoot, seedName string) (reason string, write bool) {
	last := shoot.Status.LastOperation
	switch name := ptr.Deref(shoot.Status.SeedName, ""); {
	case name != seedName:
		return fmt.Sprintf("the control plane is on seed %q", name), false
	case shoot.DeletionTimestamp != nil:
		return "the Shoot is being deleted", false
	case shoot.Status.TechnicalID == "":
		return "the Shoot has no control plane yet", false
	case last == nil:
		return "", true
	case restoring(last):
		return "the Shoot is being restored", false
	}
	return "", true
}

// restoring: the objects of the control plane are incomplete until the restore has succeeded. A Shoot whose migration
// has ended is restored next, by this seed.
func restoring(last *corev1beta1.LastOperation) bool {
	succeeded := last.State == corev1beta1.LastOperationStateSucceeded
	switch last.Type {
	case corev1beta1.LastOperationTypeRestore:
		return !succeeded
	case corev1beta1.LastOperationTypeMigrate:
		return succeeded || last.State == corev1beta1.LastOperationStateAborted
	}
	return false
}

// migrating: the flow that empties the control plane namespace is running, or about to.
func migrating(shoot *corev1beta1.Shoot) bool {
	last := shoot.Status.LastOperation
	return last != nil && last.Type == corev1beta1.LastOperationTypeMigrate
}
