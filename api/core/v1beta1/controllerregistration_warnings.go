package v1beta1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
)

// WarningsControllerRegistration names what is accepted but deprecated or without effect. old is nil for a new
// ControllerRegistration.
func WarningsControllerRegistration(registration, old *ControllerRegistration) []string {
	if old != nil && equality.Semantic.DeepEqual(registration.Spec, old.Spec) {
		return nil
	}
	var warnings []string
	for i, resource := range registration.Spec.Resources {
		warn := func(given bool, child, why string) {
			if given {
				warnings = append(warnings, fmt.Sprintf("spec.resources[%d].%s has no effect: %s", i, child, why))
			}
		}
		warn(resource.Kind == selfHostedShootExposureKind, "kind", "self-hosted Shoots are not supported")
		// The kind that it is for has true by default.
		byDefault := resource.Kind == selfHostedShootExposureKind && deref(resource.ContinuousEndpointUpdate)
		warn(resource.ContinuousEndpointUpdate != nil && !byDefault, "continuousEndpointUpdate",
			"self-hosted Shoots are not supported")
		if resource.GloballyEnabled != nil {
			warnings = append(warnings, fmt.Sprintf("spec.resources[%d].globallyEnabled is deprecated, use autoEnable", i))
		}
	}
	return warnings
}
