package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateFeatureGates(gates map[string]bool, version string, path *field.Path) field.ErrorList {
	return nil
}
func validateRuntimeConfig(config map[string]bool, version string, workers bool, path *field.Path) field.ErrorList {
	return nil
}
func knownAdmissionPlugins(version string) []string { return nil }
