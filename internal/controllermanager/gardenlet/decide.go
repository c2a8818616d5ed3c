package gardenlet

import (
	"fmt"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/pki"
)

// due reports whether a gardenlet is to be installed: the first one of a Seed that is not registered, or another one on
// request.
func due(gardenlet *seedmanagementv1alpha1.Gardenlet, registered bool) bool {
	return gardenlet.DeletionTimestamp == nil && gardenlet.Spec.KubeconfigSecretRef != nil &&
		(!registered || forced(gardenlet))
}

func forced(gardenlet *seedmanagementv1alpha1.Gardenlet) bool {
	return gardenlet.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationForceRedeploy
}

// gardenOf returns a kubeconfig of the garden without credentials, for the gardenlet. The CA bundle is that of the
// garden, unless the Gardenlet names another one.
func gardenOf(gardenlet *seedmanagementv1alpha1.Gardenlet, caBundle []byte) (pki.Kubeconfig, error) {
	address, own := gardenlet.GardenCluster()
	if address == "" {
		return pki.Kubeconfig{}, invalid{fmt.Errorf("spec.config.gardenClientConnection.gardenClusterAddress: required "+
			"value: the address of the garden as the seed %q reaches it", gardenlet.Name)}
	}
	if len(own) > 0 {
		caBundle = own
	}
	return pki.Kubeconfig{Name: "garden", Server: address, CAPEM: caBundle}, nil
}

// invalid is an error that stays until the Gardenlet, the chart or the Secret has changed.
type invalid struct{ error }

// condition says why the gardenlet is not there yet.
func condition(gardenlet *seedmanagementv1alpha1.Gardenlet, err error) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: seedmanagementv1alpha1.GardenletReconciled, Status: corev1beta1.ConditionFalse,
		Reason:  corev1beta1.EventReconciling,
		Message: fmt.Sprintf("The gardenlet is installed, and has not registered the Seed %q yet.", gardenlet.Name),
	}
	if err != nil {
		c.Reason, c.Message = corev1beta1.EventReconcileError, "The gardenlet cannot be installed: "+err.Error()
	}
	return c
}
