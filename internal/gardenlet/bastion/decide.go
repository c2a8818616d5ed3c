package bastion

import (
	"fmt"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

// Reasons of the condition BastionReady.
const (
	reasonReady       = "BastionReady"
	reasonWaiting     = "BastionPending"
	reasonFailed      = "BastionFailed"
	reasonInvalidKey  = "InvalidSSHPublicKey"
	reasonNoShoot     = "ShootNotFound"
	reasonDeleted     = "ShootDeleted"
	reasonMoves       = "ShootMoves"
	reasonHibernated  = "ShootHibernated"
	reasonNoSSH       = "SSHAccessDisabled"
	reasonNotComplete = "ControlPlaneNotReady"
)

// obstacle is why a Shoot cannot have a bastion now.
type obstacle struct{ reason, message string }

// decide returns why there can be no bastion for a Shoot, nil if there can be one. A Shoot that is nil does not exist.
func decide(shoot *corev1beta1.Shoot, seed string) *obstacle {
	switch {
	case shoot == nil:
		return &obstacle{reasonNoShoot, "The Shoot does not exist."}
	case shoot.DeletionTimestamp != nil:
		return &obstacle{reasonDeleted, "The Shoot is being deleted."}
	case ptr.Deref(shoot.Spec.SeedName, "") != seed || ptr.Deref(shoot.Status.SeedName, seed) != seed:
		return &obstacle{reasonMoves, "The control plane of the Shoot moves to another Seed."}
	case !shoot.SSHAccess():
		return &obstacle{reasonNoSSH, "The nodes of the Shoot take no SSH connections " +
			"(spec.provider.workersSettings.sshAccess.enabled)."}
	case shoot.HibernationEnabled() || shoot.Status.IsHibernated:
		return &obstacle{reasonHibernated, "The Shoot is hibernated: it has no nodes to connect to."}
	case shoot.Status.TechnicalID == "" || !created(shoot.Status.LastOperation):
		return &obstacle{reasonNotComplete, "The Shoot has no complete control plane yet."}
	}
	return nil
}

// created: the infrastructure of the Shoot exists on this seed.
func created(last *corev1beta1.LastOperation) bool {
	if last == nil {
		return false
	}
	switch last.Type {
	case corev1beta1.LastOperationTypeReconcile:
		return true
	case corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationTypeRestore:
		return last.State == corev1beta1.LastOperationStateSucceeded
	}
	return false
}

// condition reports what the extension has done about a bastion.
func condition(progress extensionobject.Progress, status *operationsv1alpha1.BastionStatus) corev1beta1.Condition {
	c := corev1beta1.Condition{Type: operationsv1alpha1.BastionReady}
	switch {
	case progress.State == extensionobject.Failed:
		c.Status, c.Reason, c.Message = corev1beta1.ConditionFalse, reasonFailed, progress.Reason
		c.Codes = progress.Codes
	case progress.State == extensionobject.Waiting:
		c.Status, c.Reason, c.Message = corev1beta1.ConditionProgressing, reasonWaiting, progress.Reason
	case status.Address() == "":
		c.Status, c.Reason = corev1beta1.ConditionProgressing, reasonWaiting
		c.Message = "The extension has not reported an address yet."
	default:
		c.Status, c.Reason = corev1beta1.ConditionTrue, reasonReady
		c.Message = fmt.Sprintf("The bastion takes connections at %s.", status.Address())
	}
	return c
}
