package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	gardencorev1beta1 "hortus.dev/hortus/api/core/v1beta1"
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
	return append(warnings, warningsOfConfig(gardenlet.Config, specPath.Child("gardenlet", "config"))...)
}

// WarningsGardenlet returns what in a Gardenlet has no effect. old is nil for a new one; warnings of an unchanged spec
// are not repeated.
func WarningsGardenlet(gardenlet, old *Gardenlet) []string {
	if old != nil && equality.Semantic.DeepEqual(gardenlet.Spec, old.Spec) {
		return nil
	}
	var warnings []string
	spec := &gardenlet.Spec
	if address, _ := gardenlet.GardenCluster(); spec.KubeconfigSecretRef != nil && address == "" {
		warnings = append(warnings, "spec.kubeconfigSecretRef: no gardenlet is installed without "+
			"spec.config.gardenClientConnection.gardenClusterAddress, the address of the garden as the seed reaches it")
	}
	if spec.Deployment.ImageVectorOverwrite != nil {
		warnings = append(warnings, "spec.deployment.imageVectorOverwrite has no effect: images are set in spec.config.images")
	}
	if spec.Deployment.ComponentImageVectorOverwrite != nil {
		warnings = append(warnings,
			"spec.deployment.componentImageVectorOverwrite has no effect: images are set in spec.config.images")
	}
	return append(warnings, warningsOfConfig(spec.Config, specPath.Child("config"))...)
}

// warningsOfConfig are about the Seed, and how a gardenlet reaches the garden.
func warningsOfConfig(raw *runtime.RawExtension, path *field.Path) []string {
	config, err := parseConfig(raw)
	if err != nil || config == nil {
		return nil // Refused by validation, or nothing to warn of.
	}
	var warnings []string
	if config.SeedConfig != nil {
		warnings = gardencorev1beta1.SeedWithoutEffect(&config.SeedConfig.Spec, path.Child("seedConfig", "spec"))
	}
	connection := config.GardenClientConnection
	if connection == nil {
		return warnings
	}
	for _, part := range []struct {
		name  string
		given bool
	}{
		{"kubeconfig", connection.Kubeconfig != ""},
		{"kubeconfigSecret", len(connection.KubeconfigSecret) > 0},
		{"bootstrapKubeconfig", len(connection.BootstrapKubeconfig) > 0},
	} {
		if part.given {
			warnings = append(warnings, path.Child("gardenClientConnection", part.name).String()+
				" has no effect: it is set where the gardenlet is installed")
		}
	}
	return warnings
}
