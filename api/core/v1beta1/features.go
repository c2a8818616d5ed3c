package v1beta1

// Features are the feature gates of the API server that validation depends on.
//
// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type Features struct {
	// InPlaceNodeUpdates allows new pools whose machines are updated without being replaced.
	InPlaceNodeUpdates bool
	// NewWorkerPoolHash keeps pools from being rolled for changes that need no new machines.
	NewWorkerPoolHash bool
	// VersionClassificationLifecycle allows lifecycles of versions.
	VersionClassificationLifecycle bool
	// CloudProfileCapabilities allows machineCapabilities.
	CloudProfileCapabilities bool
	// LiveControlPlaneMigration allows requests of migrations without an outage.
	LiveControlPlaneMigration bool
	// DisableNginxIngressInShoot forbids the addon nginxIngress.
	DisableNginxIngressInShoot bool
}

// DefaultFeatures returns the gates of an API server that sets none.
func DefaultFeatures() Features {
	return Features{
		InPlaceNodeUpdates:             true,
		NewWorkerPoolHash:              true,
		VersionClassificationLifecycle: true,
		CloudProfileCapabilities:       true,
	}
}
