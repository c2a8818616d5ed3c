package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CloudProfile is an offer: the versions, machines and regions that Shoots on one infrastructure may use.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CloudProfile struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what Shoots can be made from.
	Spec CloudProfileSpec `json:"spec,omitempty"`
	// status is what the controllers derived from the spec.
	// +optional
	Status CloudProfileStatus `json:"status,omitempty"`
}

// CloudProfileList is a list of CloudProfiles.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CloudProfileList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the CloudProfiles.
	Items []CloudProfile `json:"items"`
}

// CloudProfileSpec is the offer of a CloudProfile.
type CloudProfileSpec struct {
	// caBundle holds PEM certificates that every machine trusts.
	// +optional
	CABundle *string `json:"caBundle,omitempty"`
	// kubernetes holds the offered Kubernetes versions.
	Kubernetes KubernetesSettings `json:"kubernetes"`
	// machineImages are the offered operating systems. At least one.
	// +patchMergeKey=name
	// +patchStrategy=merge
	MachineImages []MachineImage `json:"machineImages" patchStrategy:"merge" patchMergeKey:"name"`
	// machineTypes are the offered machine sizes. At least one.
	// +patchMergeKey=name
	// +patchStrategy=merge
	MachineTypes []MachineType `json:"machineTypes" patchStrategy:"merge" patchMergeKey:"name"`
	// providerConfig is read by the provider's extension only.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// regions are the offered regions. At least one.
	// +patchMergeKey=name
	// +patchStrategy=merge
	Regions []Region `json:"regions" patchStrategy:"merge" patchMergeKey:"name"`
	// seedSelector limits the Seeds that may host Shoots of this profile. Empty: Seeds of the same provider type.
	// +optional
	SeedSelector *SeedSelector `json:"seedSelector,omitempty"`
	// type is the provider type, for example local. Required.
	Type string `json:"type"`
	// volumeTypes are the offered disk types. Empty: pools name no volume type.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	VolumeTypes []VolumeType `json:"volumeTypes,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// bastion describes the machines used as bastions. Empty: chosen by the provider.
	// +optional
	Bastion *Bastion `json:"bastion,omitempty"`
	// limits apply to every Shoot of the profile, each by itself.
	// +optional
	Limits *Limits `json:"limits,omitempty"`
	// machineCapabilities are the dimensions in which machine types and images must match.
	// +optional
	MachineCapabilities []CapabilityDefinition `json:"machineCapabilities,omitempty"`
	// controlPlane holds what Shoots may choose for their control planes.
	// +optional
	ControlPlane *CloudProfileControlPlane `json:"controlPlane,omitempty"`
}

// KubernetesSettings holds the offered Kubernetes versions.
type KubernetesSettings struct {
	// versions are full versions such as 1.36.3. At least one; the highest must not expire.
	// +optional
	// +patchMergeKey=version
	// +patchStrategy=merge
	Versions []ExpirableVersion `json:"versions,omitempty" patchStrategy:"merge" patchMergeKey:"version"`
}

// MachineImageUpdateStrategy limits the updates of a machine image by maintenance.
type MachineImageUpdateStrategy string

const (
	UpdateStrategyPatch MachineImageUpdateStrategy = "patch"
	UpdateStrategyMinor MachineImageUpdateStrategy = "minor"
	UpdateStrategyMajor MachineImageUpdateStrategy = "major"
)

// MachineImage is an operating system in several versions.
type MachineImage struct {
	// name of the image. Unique in the profile.
	Name string `json:"name"`
	// versions of the image. At least one.
	// +patchMergeKey=version
	// +patchStrategy=merge
	Versions []MachineImageVersion `json:"versions" patchStrategy:"merge" patchMergeKey:"version"`
	// updateStrategy limits automatic updates: patch, minor or major. Default major.
	// +optional
	UpdateStrategy *MachineImageUpdateStrategy `json:"updateStrategy,omitempty"`
}

// MachineImageVersion is one version of an operating system.
type MachineImageVersion struct {
	ExpirableVersion `json:",inline"`
	// cri are the container runtimes of this version. Default containerd.
	// +optional
	CRI []CRI `json:"cri,omitempty"`
	// architectures are amd64 and/or arm64. Default amd64; not defaulted when the profile uses machineCapabilities.
	// +optional
	Architectures []string `json:"architectures,omitempty"`
	// kubeletVersionConstraint is a version constraint such as ">= 1.26" on the kubelets that run on this
	// version. Empty: all.
	// +optional
	KubeletVersionConstraint *string `json:"kubeletVersionConstraint,omitempty"`
	// inPlaceUpdates specifies whether machines can be updated to this version without being replaced.
	// +optional
	InPlaceUpdates *InPlaceUpdates `json:"inPlaceUpdates,omitempty"`
	// capabilityFlavors are the combinations of capabilities in which this version is available.
	// +optional
	CapabilityFlavors []Capabilities `json:"capabilityFlavors,omitempty"`
}

// InPlaceUpdates is what a machine image version can do about updates in place.
type InPlaceUpdates struct {
	// supported is true when a machine can be updated to this version in place.
	Supported bool `json:"supported"`
	// minVersionForUpdate is the lowest version from which that works. Empty: any.
	// +optional
	MinVersionForUpdate *string `json:"minVersionForUpdate,omitempty"`
}

// CapabilityValues are the values of one capability.
type CapabilityValues []string

// Capabilities maps a capability's name to values.
type Capabilities map[string]CapabilityValues

// CapabilityDefinition is a capability and all its possible values.
type CapabilityDefinition struct {
	// name of the capability, for example architecture.
	Name string `json:"name"`
	// values that machine types and images may have, in order of preference.
	Values CapabilityValues `json:"values"`
}

// MachineType is a machine size.
type MachineType struct {
	// cpu is the number of CPUs of one machine, such as 4.
	CPU resource.Quantity `json:"cpu"`
	// gpu is the number of GPUs of one machine, such as 0.
	GPU resource.Quantity `json:"gpu"`
	// memory is the size of the main memory in bytes.
	Memory resource.Quantity `json:"memory"`
	// name of the machine type. Unique in the profile.
	Name string `json:"name"`
	// storage describes the disk included in the machine type. Empty: pools choose a volume.
	// +optional
	Storage *MachineTypeStorage `json:"storage,omitempty"`
	// usable is false when new pools may not use the type. Default true.
	// +optional
	Usable *bool `json:"usable,omitempty"`
	// architecture is amd64 or arm64. Default amd64; not defaulted when the profile uses machineCapabilities.
	// +optional
	Architecture *string `json:"architecture,omitempty"`
	// capabilities of the machine, out of the profile's machineCapabilities.
	// +optional
	Capabilities Capabilities `json:"capabilities,omitempty"`
	// machineControllerManager holds settings for machines of this type. No effect here: pools have their own.
	// +optional
	MachineControllerManager *MachineTypeControllerManagerSettings `json:"machineControllerManager,omitempty"`
}

// MachineTypeControllerManagerSettings are settings for the machines of one type.
type MachineTypeControllerManagerSettings struct {
	// machineCreationTimeout is how long a machine may take to join the cluster. Empty: the pool's or general default.
	// +optional
	MachineCreationTimeout *metav1.Duration `json:"machineCreationTimeout,omitempty"`
}

// MachineTypeStorage is the disk of a machine type. Exactly one of size and minSize is given.
type MachineTypeStorage struct {
	// class is the class of the disk, for example standard or premium.
	Class string `json:"class"`
	// size is the fixed size of the disk in bytes.
	// +optional
	StorageSize *resource.Quantity `json:"size,omitempty"`
	// type is the provider's name of the disk type.
	Type string `json:"type"`
	// minSize is the smallest size of the disk in bytes that a pool may request.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`
}

// VolumeType is a disk type.
type VolumeType struct {
	// class is the class of the disk, for example standard or premium.
	Class string `json:"class"`
	// name of the volume type. Unique in the profile.
	Name string `json:"name"`
	// usable is false when new pools may not use the type. Default true.
	// +optional
	Usable *bool `json:"usable,omitempty"`
	// minSize is the smallest size in bytes that a pool may request. Empty: no lower bound.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`
}

// Region is a region of the infrastructure.
type Region struct {
	// name of the region. Unique in the profile.
	Name string `json:"name"`
	// zones of the region. Empty: the region has no zones.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Zones []AvailabilityZone `json:"zones,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// labels are for users and selectors; they have no meaning of their own.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// accessRestrictions are the restrictions that Shoots of this region may request.
	// +optional
	AccessRestrictions []AccessRestriction `json:"accessRestrictions,omitempty"`
}

// AvailabilityZone is a zone of a region.
type AvailabilityZone struct {
	// name of the zone. Unique in the region.
	Name string `json:"name"`
	// unavailableMachineTypes are machine types that this zone lacks.
	// +optional
	UnavailableMachineTypes []string `json:"unavailableMachineTypes,omitempty"`
	// unavailableVolumeTypes are volume types that this zone lacks.
	// +optional
	UnavailableVolumeTypes []string `json:"unavailableVolumeTypes,omitempty"`
}

// Bastion describes the machines used as bastions. At least one field is given.
type Bastion struct {
	// machineImage of bastions. Empty: chosen by the provider.
	// +optional
	MachineImage *BastionMachineImage `json:"machineImage,omitempty"`
	// machineType of bastions. Empty: chosen by the provider.
	// +optional
	MachineType *BastionMachineType `json:"machineType,omitempty"`
}

// BastionMachineImage is the image of bastions.
type BastionMachineImage struct {
	// name of an image of the profile.
	Name string `json:"name"`
	// version of the image. Empty: the newest supported.
	// +optional
	Version *string `json:"version,omitempty"`
}

// BastionMachineType is the machine type of bastions.
type BastionMachineType struct {
	// name of a machine type of the profile.
	Name string `json:"name"`
}

// Limits apply to every Shoot of a profile.
type Limits struct {
	// maxNodesTotal bounds the nodes of one Shoot, over all its pools; more than 0. Empty: no limit.
	// +optional
	MaxNodesTotal *int32 `json:"maxNodesTotal,omitempty"`
}

// CloudProfileControlPlane holds what Shoots may choose for their control planes.
type CloudProfileControlPlane struct {
	// allowZonePinning lets Shoots choose the zones of their control planes. Default false.
	// +optional
	AllowZonePinning *bool `json:"allowZonePinning,omitempty"`
}

// CloudProfileStatus is what the controllers derived from a CloudProfile's spec.
type CloudProfileStatus struct {
	// kubernetes holds the present classification of each Kubernetes version.
	// +optional
	Kubernetes *KubernetesStatus `json:"kubernetes,omitempty"`
	// machineImages hold the present classification of each machine image version.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	MachineImages []MachineImageStatus `json:"machineImages,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// KubernetesStatus holds the present classification of each Kubernetes version.
type KubernetesStatus struct {
	// versions and their classes.
	// +optional
	// +patchMergeKey=version
	// +patchStrategy=merge
	Versions []ExpirableVersionStatus `json:"versions,omitempty" patchStrategy:"merge" patchMergeKey:"version"`
}

// MachineImageStatus holds the present classification of each version of an image.
type MachineImageStatus struct {
	// name of the image.
	Name string `json:"name"`
	// versions and their classes.
	// +optional
	// +patchMergeKey=version
	// +patchStrategy=merge
	Versions []ExpirableVersionStatus `json:"versions,omitempty" patchStrategy:"merge" patchMergeKey:"version"`
}

// ExpirableVersionStatus is a version and its present class.
type ExpirableVersionStatus struct {
	// version such as 1.36.3.
	Version string `json:"version"`
	// classification is the class at present: unavailable, preview, supported, deprecated or expired.
	Classification VersionClassification `json:"classification"`
}
