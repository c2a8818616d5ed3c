package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	gardencorev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// ManagedSeed registers a Shoot of the namespace garden as a Seed.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ManagedSeed struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec names the Shoot and configures its gardenlet.
	// +optional
	Spec ManagedSeedSpec `json:"spec,omitempty"`
	// status is the observed state of the ManagedSeed.
	// +optional
	Status ManagedSeedStatus `json:"status,omitempty"`
}

// ManagedSeedList is a list of ManagedSeeds.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ManagedSeedList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ManagedSeeds.
	Items []ManagedSeed `json:"items"`
}

// ManagedSeedSpec names the Shoot and configures its gardenlet.
type ManagedSeedSpec struct {
	// shoot that becomes a Seed. Required; immutable.
	// +optional
	Shoot *Shoot `json:"shoot,omitempty"`
	// gardenlet that is deployed to the Shoot.
	Gardenlet GardenletConfig `json:"gardenlet"`
}

// Shoot names a Shoot of the namespace garden.
type Shoot struct {
	// name of the Shoot.
	Name string `json:"name"`
}

// Bootstrap is how a new gardenlet gets its first credentials.
type Bootstrap string

const (
	BootstrapServiceAccount Bootstrap = "ServiceAccount"
	BootstrapToken          Bootstrap = "BootstrapToken"
	BootstrapNone           Bootstrap = "None"
)

// GardenletConfig is a gardenlet's deployment and configuration.
type GardenletConfig struct {
	// deployment holds settings of the gardenlet's Deployment.
	// +optional
	Deployment *GardenletDeployment `json:"deployment,omitempty"`
	// config is a GardenletConfiguration with a seedConfig.
	// +optional
	Config *runtime.RawExtension `json:"config,omitempty"`
	// bootstrap is how the gardenlet gets its first credentials: ServiceAccount, BootstrapToken or None.
	// Default BootstrapToken. Immutable once set.
	// +optional
	Bootstrap *Bootstrap `json:"bootstrap,omitempty"`
	// mergeWithParent merges the configuration with that of the parent gardenlet. Default true. Immutable once set.
	// +optional
	MergeWithParent *bool `json:"mergeWithParent,omitempty"`
}

// GardenletDeployment holds settings of a gardenlet's Deployment.
type GardenletDeployment struct {
	// replicaCount is the number of pods. Default 2.
	// +optional
	ReplicaCount *int32 `json:"replicaCount,omitempty"`
	// revisionHistoryLimit is the number of old ReplicaSets. Default 2.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// serviceAccountName of the pods. Default gardenlet.
	// +optional
	ServiceAccountName *string `json:"serviceAccountName,omitempty"`
	// image of the pods. Default that of the parent gardenlet.
	// +optional
	Image *Image `json:"image,omitempty"`
	// resources of the container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// podLabels are added to the pods.
	// +optional
	PodLabels map[string]string `json:"podLabels,omitempty"`
	// podAnnotations are added to the pods.
	// +optional
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`
	// additionalVolumes of the pods.
	// +optional
	AdditionalVolumes []corev1.Volume `json:"additionalVolumes,omitempty"`
	// additionalVolumeMounts of the container.
	// +optional
	AdditionalVolumeMounts []corev1.VolumeMount `json:"additionalVolumeMounts,omitempty"`
	// env of the container.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// tolerations of the pods.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// enableHealthProbes switches the probes. Default true.
	// +optional
	EnableHealthProbes *bool `json:"enableHealthProbes,omitempty"`
}

// Image is a container image: either ref, or repository and tag.
type Image struct {
	// repository of the image.
	// +optional
	Repository *string `json:"repository,omitempty"`
	// tag of the image.
	// +optional
	Tag *string `json:"tag,omitempty"`
	// ref is the full reference.
	// +optional
	Ref *string `json:"ref,omitempty"`
	// pullPolicy is Always, IfNotPresent or Never. Default IfNotPresent, Always for the tag latest.
	// +optional
	PullPolicy *corev1.PullPolicy `json:"pullPolicy,omitempty"`
}

// Conditions of a ManagedSeed.
const (
	ManagedSeedShootReconciled gardencorev1beta1.ConditionType = "ShootReconciled"
	SeedRegistered             gardencorev1beta1.ConditionType = "SeedRegistered"
)

// ManagedSeedStatus is the observed state of a ManagedSeed.
type ManagedSeedStatus struct {
	// conditions of the ManagedSeed.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []gardencorev1beta1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// observedGeneration is the generation that the gardenlet has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
