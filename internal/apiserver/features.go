package apiserver

import (
	"k8s.io/component-base/featuregate"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Feature gates of the API server.
const (
	featureInPlaceNodeUpdates             featuregate.Feature = "InPlaceNodeUpdates"
	featureNewWorkerPoolHash              featuregate.Feature = "NewWorkerPoolHash"
	featureVersionClassificationLifecycle featuregate.Feature = "VersionClassificationLifecycle"
	featureCloudProfileCapabilities       featuregate.Feature = "CloudProfileCapabilities"
	featureLiveControlPlaneMigration      featuregate.Feature = "LiveControlPlaneMigration"
	featureDisableNginxIngressInShoot     featuregate.Feature = "DisableNginxIngressInShoot"
)

// gates returns all gates with their defaults.
func gates() map[featuregate.Feature]featuregate.FeatureSpec {
	defaults := corev1beta1.DefaultFeatures()
	gate := func(on bool) featuregate.FeatureSpec {
		if on {
			return featuregate.FeatureSpec{Default: true, PreRelease: featuregate.Beta}
		}
		return featuregate.FeatureSpec{PreRelease: featuregate.Alpha}
	}
	return map[featuregate.Feature]featuregate.FeatureSpec{
		featureInPlaceNodeUpdates:             gate(defaults.InPlaceNodeUpdates),
		featureNewWorkerPoolHash:              gate(defaults.NewWorkerPoolHash),
		featureVersionClassificationLifecycle: gate(defaults.VersionClassificationLifecycle),
		featureCloudProfileCapabilities:       gate(defaults.CloudProfileCapabilities),
		featureLiveControlPlaneMigration:      gate(defaults.LiveControlPlaneMigration),
		featureDisableNginxIngressInShoot:     gate(defaults.DisableNginxIngressInShoot),
	}
}

// features returns the state of the gates as validation needs it.
func (o *Options) features() corev1beta1.Features {
	return corev1beta1.Features{
		InPlaceNodeUpdates:             o.Features.Enabled(featureInPlaceNodeUpdates),
		NewWorkerPoolHash:              o.Features.Enabled(featureNewWorkerPoolHash),
		VersionClassificationLifecycle: o.Features.Enabled(featureVersionClassificationLifecycle),
		CloudProfileCapabilities:       o.Features.Enabled(featureCloudProfileCapabilities),
		LiveControlPlaneMigration:      o.Features.Enabled(featureLiveControlPlaneMigration),
		DisableNginxIngressInShoot:     o.Features.Enabled(featureDisableNginxIngressInShoot),
	}
}
