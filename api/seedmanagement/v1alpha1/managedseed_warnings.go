package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/equality"
)

// WarningsManagedSeed returns what in a ManagedSeed has no effect. old is nil for a new one; warnings of an unchanged
// spec are not repeated.
func WarningsManagedSeed(managedSeed, old *ManagedSeed) []string {
	if old != nil && equality.Semantic.DeepEqual(managedSeed.Spec, old.Spec) {
		return nil
	}
	var warnings []string
	gardenlet := &managedSeed.Spec.Gardenlet
	if b := gardenlet.Bootstrap; b != nil && *b != BootstrapToken {
		warnings = append(warnings, "spec.gardenlet.bootstrap has no effect: the gardenlet of the Seed that runs the Shoot "+
			"always requests the first certificate")
	}
	config, err := parseConfig(gardenlet.Config)
	if err != nil || config == nil || config.GardenClientConnection == nil {
		return warnings // Refused by validation, or nothing to warn of.
	}
	connection := config.GardenClientConnection
	for _, part := range []struct {
		name  string
		given bool
	}{
		{"kubeconfig", connection.Kubeconfig != ""},
		{"kubeconfigSecret", len(connection.KubeconfigSecret) > 0},
		{"bootstrapKubeconfig", len(connection.BootstrapKubeconfig) > 0},
	} {
		if part.given {
			warnings = append(warnings, "spec.gardenlet.config.gardenClientConnection."+part.name+
				" has no effect: it is set where the gardenlet is installed")
		}
	}
	return warnings
}
