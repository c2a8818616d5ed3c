// Package v1alpha1 has the provider's own configuration in garden objects, group local.provider.hortus.dev.
package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// APIVersion of all types in this package.
const APIVersion = "local.provider.hortus.dev/v1alpha1"

// Type is the provider type: of Shoots, DNS and backup.
const Type = "local"

// InfrastructureConfig is a Shoot's spec.provider.infrastructureConfig.
type InfrastructureConfig struct {
	metav1.TypeMeta `json:",inline"`
	// networks of the Shoot.
	// +optional
	Networks Networks `json:"networks,omitzero"`
}

// Networks of a Shoot.
type Networks struct {
	// cidr of the machines' network. Empty means the Shoot's spec.networking.nodes, or else one the cloud picks.
	// +optional
	CIDR string `json:"cidr,omitempty"`
}

// InfrastructureStatus is the status.providerStatus of an Infrastructure: the resources made for it.
type InfrastructureStatus struct {
	metav1.TypeMeta `json:",inline"`
	// networkID is the cloud network of the machines.
	NetworkID string `json:"networkID"`
	// cidr of that network.
	CIDR string `json:"cidr"`
}

// BackupBucketStatus is the status.providerStatus of a BackupBucket: the resources made for it.
type BackupBucketStatus struct {
	metav1.TypeMeta `json:",inline"`
	// createdAt is when the cloud made the bucket. A bucket that is known here is never made again: an empty one in place
	// of backups would look as if there had been none.
	CreatedAt metav1.Time `json:"createdAt"`
}

// ControlPlaneConfig is a Shoot's spec.provider.controlPlaneConfig.
type ControlPlaneConfig struct {
	metav1.TypeMeta `json:",inline"`
	// storage settings.
	// +optional
	Storage Storage `json:"storage,omitzero"`
}

// Storage settings of a Shoot.
type Storage struct {
	// disabled leaves out the StorageClass "default" and the driver of its volumes. Default false.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// WorkerConfig is the providerConfig of a Shoot's worker pool.
type WorkerConfig struct {
	metav1.TypeMeta `json:",inline"`
	// tags are put on the pool's instances. A change takes effect on new instances only.
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// nodeLabels are added to the pool's nodes.
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
}

// CloudProfileConfig is a CloudProfile's spec.providerConfig.
type CloudProfileConfig struct {
	metav1.TypeMeta `json:",inline"`
	// machineImages map logical image versions to images of the cloud.
	MachineImages []MachineImage `json:"machineImages"`
}

// MachineImage maps the versions of one logical image.
type MachineImage struct {
	// name of the logical image.
	Name string `json:"name"`
	// versions of the logical image.
	Versions []MachineImageVersion `json:"versions"`
}

// MachineImageVersion maps one version of a logical image.
type MachineImageVersion struct {
	// version of the logical image.
	Version string `json:"version"`
	// image is the cloud's name of it, for example hortus.dev/machine:1.0.0.
	Image string `json:"image"`
	// architecture of the image. Empty means any.
	// +optional
	Architecture string `json:"architecture,omitempty"`
}

// MachineSpec is the providerSpec of a MachineClass.
type MachineSpec struct {
	metav1.TypeMeta `json:",inline"`
	// machineType, image, networkID and zone are those of the cloud's instances.
	MachineType string `json:"machineType"`
	Image       string `json:"image"`
	NetworkID   string `json:"networkID"`
	Zone        string `json:"zone,omitempty"`
	// tags are put on the instance. TagCluster and TagRole are always set.
	Tags map[string]string `json:"tags"`
	// volumes are created with the instance and deleted after it.
	Volumes []MachineVolume `json:"volumes,omitempty"`
}

// MachineVolume is a volume of a machine.
type MachineVolume struct {
	// name is unique in the machine.
	Name string `json:"name"`
	// sizeBytes is counted against the quota of the cloud's account.
	SizeBytes int64 `json:"sizeBytes"`
	// path is where the volume is mounted in the instance.
	Path string `json:"path"`
}

// Tags on all instances of a Shoot.
const (
	TagCluster = "cluster.hortus.dev/name" // Technical ID of the Shoot.
	TagRole    = "cluster.hortus.dev/role" // RoleNode or RoleBastion.
	TagPool    = "cluster.hortus.dev/pool" // Name of the worker pool; of nodes only.
	// TagMachine is the name of the machine that a volume belongs to. Volumes of claims have none.
	TagMachine = "cluster.hortus.dev/machine"

	RoleNode    = "node"
	RoleBastion = "bastion"
)

// Image returns the cloud's name of a logical image.
func (c *CloudProfileConfig) Image(name, version, architecture string) (string, error) {
	for _, image := range c.MachineImages {
		if image.Name != name {
			continue
		}
		for _, v := range image.Versions {
			if v.Version == version && (v.Architecture == "" || architecture == "" || v.Architecture == architecture) {
				return v.Image, nil
			}
		}
	}
	return "", fmt.Errorf("the CloudProfile maps no image of the cloud to %q version %q for %s", name, version,
		architecture)
}

// Decode reads a configuration strictly: an unknown field is an error, since it is most likely misspelt. An empty
// configuration leaves the target unchanged.
func Decode(raw *runtime.RawExtension, kind string, into any) error {
	if raw == nil || len(bytes.TrimSpace(raw.Raw)) == 0 || string(raw.Raw) == "null" {
		return nil
	}
	var meta metav1.TypeMeta
	if err := json.Unmarshal(raw.Raw, &meta); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	// Without type the target decides; the contract's minimal example is an empty object.
	if (meta.APIVersion != "" && meta.APIVersion != APIVersion) || (meta.Kind != "" && meta.Kind != kind) {
		return fmt.Errorf("decode %s: got kind %q of %q", kind, meta.Kind, meta.APIVersion)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("decode %s: more than one object", kind)
	}
	return nil
}

// Encode writes a status or specification of this package.
func Encode(kind string, value interface{ SetType(apiVersion, kind string) }) (*runtime.RawExtension, error) {
	value.SetType(APIVersion, kind)
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// SetType names the type in the object.
func (s *InfrastructureStatus) SetType(apiVersion, kind string) {
	s.APIVersion, s.Kind = apiVersion, kind
}

// SetType names the type in the object.
func (s *BackupBucketStatus) SetType(apiVersion, kind string) {
	s.APIVersion, s.Kind = apiVersion, kind
}

// SetType names the type in the object.
func (s *MachineSpec) SetType(apiVersion, kind string) { s.APIVersion, s.Kind = apiVersion, kind }
