package v1beta1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
)

// WarningsCloudProfile names what is accepted but without effect. old is nil for a new CloudProfile.
func WarningsCloudProfile(profile, old *CloudProfile) []string {
	if old == nil {
		old = &CloudProfile{}
	}
	if equality.Semantic.DeepEqual(profile.Spec.MachineTypes, old.Spec.MachineTypes) {
		return nil
	}
	return machineTypesWithoutEffect(profile.Spec.MachineTypes)
}

// WarningsNamespacedCloudProfile names what is accepted but without effect. old is nil for a new
// NamespacedCloudProfile.
func WarningsNamespacedCloudProfile(profile, old *NamespacedCloudProfile) []string {
	if old != nil && equality.Semantic.DeepEqual(profile.Spec.MachineTypes, old.Spec.MachineTypes) {
		return nil
	}
	return machineTypesWithoutEffect(profile.Spec.MachineTypes)
}

func machineTypesWithoutEffect(types []MachineType) []string {
	var warnings []string
	for i := range types {
		if types[i].MachineControllerManager != nil {
			warnings = append(warnings, fmt.Sprintf(
				"spec.machineTypes[%d].machineControllerManager has no effect: pools of Shoots have settings of their own", i))
		}
	}
	return warnings
}
