package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddDefaults makes the decoders of a scheme apply the defaults of this package. The API server's scheme does.
func AddDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&ManagedSeed{}, func(obj any) { SetDefaultsManagedSeed(obj.(*ManagedSeed)) })
	scheme.AddTypeDefaultingFunc(&ManagedSeedList{}, func(obj any) {
		for i := range obj.(*ManagedSeedList).Items {
			SetDefaultsManagedSeed(&obj.(*ManagedSeedList).Items[i])
		}
	})
	scheme.AddTypeDefaultingFunc(&Gardenlet{}, func(obj any) { SetDefaultsGardenlet(obj.(*Gardenlet)) })
	scheme.AddTypeDefaultingFunc(&GardenletList{}, func(obj any) {
		for i := range obj.(*GardenletList).Items {
			SetDefaultsGardenlet(&obj.(*GardenletList).Items[i])
		}
	})
}

// SetDefaultsManagedSeed fills the empty fields of a ManagedSeed that have a default.
func SetDefaultsManagedSeed(managedSeed *ManagedSeed) {
	gardenlet := &managedSeed.Spec.Gardenlet
	setDefault(&gardenlet.Bootstrap, BootstrapToken)
	setDefault(&gardenlet.MergeWithParent, true)
	setDefault(&gardenlet.Deployment, GardenletDeployment{})
	setDefaultsDeployment(gardenlet.Deployment)
}

func setDefaultsDeployment(deployment *GardenletDeployment) {
	setDefault(&deployment.ReplicaCount, 2)
	setDefault(&deployment.RevisionHistoryLimit, 2)
	setDefault(&deployment.EnableHealthProbes, true)
	if image := deployment.Image; image != nil {
		policy := corev1.PullIfNotPresent
		if image.Tag != nil && *image.Tag == "latest" {
			policy = corev1.PullAlways
		}
		setDefault(&image.PullPolicy, policy)
	}
}

// SetDefaultsGardenlet fills the empty fields of a Gardenlet that have a default.
func SetDefaultsGardenlet(gardenlet *Gardenlet) {
	setDefaultsDeployment(&gardenlet.Spec.Deployment.GardenletDeployment)
}

// setDefault sets a field that is empty.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
