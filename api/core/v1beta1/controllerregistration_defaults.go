package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const extensionReconcileTimeout = 3 * time.Minute

// SetDefaultsControllerRegistration fills the empty fields of a ControllerRegistration that have a default.
func SetDefaultsControllerRegistration(registration *ControllerRegistration) {
	for i := range registration.Spec.Resources {
		resource := &registration.Spec.Resources[i]
		setDefault(&resource.Primary, true)
		switch resource.Kind {
		case extensionKind:
			setDefault(&resource.ReconcileTimeout, metav1.Duration{Duration: extensionReconcileTimeout})
			setDefault(&resource.Lifecycle, ControllerResourceLifecycle{})
			setDefault(&resource.Lifecycle.Reconcile, AfterKubeAPIServer)
			setDefault(&resource.Lifecycle.Delete, BeforeKubeAPIServer)
			setDefault(&resource.Lifecycle.Migrate, BeforeKubeAPIServer)
			if len(resource.ClusterCompatibility) == 0 {
				resource.ClusterCompatibility = []ClusterType{ClusterTypeShoot}
			}
		case selfHostedShootExposureKind:
			setDefault(&resource.ContinuousEndpointUpdate, true)
		}
	}
	if registration.Spec.Deployment != nil {
		setDefault(&registration.Spec.Deployment.Policy, ControllerDeploymentPolicyOnDemand)
	}
}
