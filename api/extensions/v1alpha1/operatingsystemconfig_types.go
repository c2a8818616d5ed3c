package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// OperatingSystemConfigKind is the kind of a [OperatingSystemConfig].
const OperatingSystemConfigKind = "OperatingSystemConfig"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=operatingsystemconfigs,scope=Namespaced,shortName=osc,singular=operatingsystemconfig
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name="Purpose",JSONPath=".spec.purpose",type=string,description="Purpose of the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// OperatingSystemConfig is the set of files and units on the machines of a worker pool.
type OperatingSystemConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec OperatingSystemConfigSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status OperatingSystemConfigStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *OperatingSystemConfig) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *OperatingSystemConfig) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// OperatingSystemConfigList is a list of OperatingSystemConfig objects.
type OperatingSystemConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []OperatingSystemConfig `json:"items"`
}

// OperatingSystemConfigSpec is the desired state of an OperatingSystemConfig.
type OperatingSystemConfigSpec struct {
	DefaultSpec `json:",inline"`
	// criConfig configures the container runtime.
	// +optional
	CRIConfig *CRIConfig `json:"criConfig,omitempty"`
	// purpose is provision (it becomes the user data of new machines) or reconcile (the node agent applies it).
	// Required, immutable.
	// +kubebuilder:validation:Enum=provision;reconcile
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Purpose OperatingSystemConfigPurpose `json:"purpose"`
	// units are systemd units.
	// +listType=map
	// +listMapKey=name
	// +optional
	Units []Unit `json:"units,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// files are written before units start. The same path may occur twice only if both name different hosts.
	// +optional
	Files []File `json:"files,omitempty" patchStrategy:"merge" patchMergeKey:"path"`
	// inPlaceUpdates is set for pools that are updated in place, purpose reconcile only.
	// +optional
	InPlaceUpdates *InPlaceUpdates `json:"inPlaceUpdates,omitempty"`
}

// OperatingSystemConfigStatus is the observed state of an OperatingSystemConfig.
type OperatingSystemConfigStatus struct {
	DefaultStatus `json:",inline"`
	// extensionUnits are added to spec.units on the node; set by the extension.
	// +listType=map
	// +listMapKey=name
	// +optional
	ExtensionUnits []Unit `json:"extensionUnits,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// extensionFiles are added to spec.files on the node; set by the extension.
	// +optional
	ExtensionFiles []File `json:"extensionFiles,omitempty" patchStrategy:"merge" patchMergeKey:"path"`
	// cloudConfig is the rendered user data, purpose provision only.
	// +optional
	CloudConfig *CloudConfig `json:"cloudConfig,omitempty"`
	// inPlaceUpdates specifies how the operating system is updated in place.
	// +optional
	InPlaceUpdates *InPlaceUpdatesStatus `json:"inPlaceUpdates,omitempty"`
}

// OperatingSystemConfigPurpose is the stage at which a machine applies an OperatingSystemConfig.
type OperatingSystemConfigPurpose string

const (
	// OperatingSystemConfigPurposeProvision is for the user data of new machines.
	OperatingSystemConfigPurposeProvision OperatingSystemConfigPurpose = "provision"
	// OperatingSystemConfigPurposeReconcile is for the node agent.
	OperatingSystemConfigPurposeReconcile OperatingSystemConfigPurpose = "reconcile"
)

// Unit is a systemd unit.
type Unit struct {
	// name of the unit with its suffix, for example kubelet.service. Required.
	Name string `json:"name"`
	// command is start, restart or stop. Empty means restart.
	// +optional
	Command *UnitCommand `json:"command,omitempty"`
	// enable specifies whether the unit starts at boot. Empty means yes.
	// +optional
	Enable *bool `json:"enable,omitempty"`
	// content of the unit file. Empty for units of the machine image.
	// +optional
	Content *string `json:"content,omitempty"`
	// dropIns extend the unit file.
	// +listType=map
	// +listMapKey=name
	// +optional
	DropIns []DropIn `json:"dropIns,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// filePaths are paths of spec.files; the unit restarts when one of them changes.
	// +optional
	FilePaths []string `json:"filePaths,omitempty"`
}

// UnitCommand is done to a unit after it was written.
// +kubebuilder:validation:Enum=start;restart;stop
type UnitCommand string

const (
	// CommandStart starts the unit.
	CommandStart UnitCommand = "start"
	// CommandRestart stops and starts the unit.
	CommandRestart UnitCommand = "restart"
	// CommandStop stops the unit.
	CommandStop UnitCommand = "stop"
)

// DropIn extends a unit file.
type DropIn struct {
	// name of the file in the unit's drop-in directory, ending in .conf. Required.
	Name string `json:"name"`
	// content of the file. Required.
	Content string `json:"content"`
}

// File is written to the machine's disk.
type File struct {
	// path is absolute. Required.
	Path string `json:"path"`
	// permissions are the mode bits as a number, for example 420 for 0644. Empty means 0644.
	// +optional
	Permissions *uint32 `json:"permissions,omitempty"`
	// content of the file. Required.
	Content FileContent `json:"content"`
	// hostName limits the file to the machine of that name. Empty means all machines.
	// +optional
	HostName *string `json:"hostName,omitempty"`
}

// FileContent has exactly one of secretRef, inline and imageRef.
// +kubebuilder:validation:XValidation:rule="(has(self.secretRef) ? 1 : 0) + (has(self.inline) ? 1 : 0) + (has(self.imageRef) ? 1 : 0) == 1",message="needs exactly one of secretRef, inline, imageRef"
type FileContent struct {
	// secretRef takes the content from a Secret in the same namespace.
	// +optional
	SecretRef *FileContentSecretRef `json:"secretRef,omitempty"`
	// inline has the content itself.
	// +optional
	Inline *FileContentInline `json:"inline,omitempty"`
	// transmitUnencoded keeps placeholders such as <<BOOTSTRAP_TOKEN>> readable in the user data, so that they can
	// be replaced for each machine.
	// +optional
	TransmitUnencoded *bool `json:"transmitUnencoded,omitempty"`
	// imageRef takes the content from a file in a container image.
	// +optional
	ImageRef *FileContentImageRef `json:"imageRef,omitempty"`
}

// FileContentSecretRef is one key of a Secret.
type FileContentSecretRef struct {
	// name of the Secret. Required.
	Name string `json:"name"`
	// dataKey is the key in its data. Required.
	DataKey string `json:"dataKey"`
}

// FileContentInline is content written in the object.
type FileContentInline struct {
	// encoding is empty for plain text or b64 for base64.
	// +kubebuilder:validation:Enum="";b64
	// +optional
	Encoding string `json:"encoding"`
	// data in that encoding. Required.
	Data string `json:"data"`
}

// FileContentImageRef is one file in a container image.
type FileContentImageRef struct {
	// image is the full name of the image. Required.
	Image string `json:"image"`
	// filePathInImage is the absolute path of the file in the image. Required.
	FilePathInImage string `json:"filePathInImage"`
}

// CRIName names a container runtime.
// +kubebuilder:validation:Enum=containerd
type CRIName string

// CRINameContainerd is containerd, the only container runtime there is.
const CRINameContainerd CRIName = "containerd"

// CgroupDriverName is the cgroup driver of the container runtime.
// +kubebuilder:validation:Enum=cgroupfs;systemd
type CgroupDriverName string

const (
	// CgroupDriverCgroupfs writes to the cgroup file system.
	CgroupDriverCgroupfs CgroupDriverName = "cgroupfs"
	// CgroupDriverSystemd delegates to systemd.
	CgroupDriverSystemd CgroupDriverName = "systemd"
)

// CRIConfig configures the container runtime.
type CRIConfig struct {
	// name is containerd. Required, immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Name CRIName `json:"name"`
	// cgroupDriver is cgroupfs or systemd. Empty means cgroupfs.
	// +optional
	CgroupDriver *CgroupDriverName `json:"cgroupDriver,omitempty"`
	// containerd has settings of containerd, purpose reconcile only.
	// +optional
	Containerd *ContainerdConfig `json:"containerd,omitempty"`
}

// ContainerdConfig has settings of containerd.
type ContainerdConfig struct {
	// registries configure where images are pulled from.
	// +listType=map
	// +listMapKey=upstream
	// +optional
	Registries []RegistryConfig `json:"registries,omitempty" patchStrategy:"merge" patchMergeKey:"upstream"`
	// sandboxImage is the image of the container that holds a pod's namespaces. Required.
	SandboxImage string `json:"sandboxImage"`
	// plugins change parts of containerd's configuration.
	// +optional
	Plugins []PluginConfig `json:"plugins,omitempty"`
}

// RegistryConfig configures how images of one registry are pulled.
type RegistryConfig struct {
	// upstream is the registry's name in image references, for example docker.io. Required.
	Upstream string `json:"upstream"`
	// server is the URL used when no host answers. Empty means the upstream's own.
	// +optional
	Server *string `json:"server,omitempty"`
	// hosts are tried in this order. Empty: images are pulled from the server alone.
	// +optional
	Hosts []RegistryHost `json:"hosts,omitempty"`
	// readinessProbe makes the node agent wait until the hosts answer before it writes the configuration.
	// +optional
	ReadinessProbe *bool `json:"readinessProbe,omitempty"`
}

// RegistryCapability is something a registry host can do.
// +kubebuilder:validation:Enum=pull;resolve;push
type RegistryCapability string

const (
	// PullCapability fetches content by digest.
	PullCapability RegistryCapability = "pull"
	// ResolveCapability turns a tag into a digest.
	ResolveCapability RegistryCapability = "resolve"
	// PushCapability accepts content.
	PushCapability RegistryCapability = "push"
)

// RegistryHost is one place to pull from.
type RegistryHost struct {
	// url of the host. Required.
	URL string `json:"url"`
	// capabilities of the host. Empty means pull and resolve.
	// +optional
	Capabilities []RegistryCapability `json:"capabilities,omitempty"`
	// caCerts are paths of PEM files on the machine.
	// +optional
	CACerts []string `json:"caCerts,omitempty"`
	// overridePath means that the URL already contains the path of the registry API.
	// +optional
	OverridePath *bool `json:"overridePath,omitempty"`
}

// PluginPathOperation is what is done at a path of containerd's configuration.
// +kubebuilder:validation:Enum=add;remove
type PluginPathOperation string

const (
	// AddPluginPathOperation sets the values at the path.
	AddPluginPathOperation PluginPathOperation = "add"
	// RemovePluginPathOperation removes the path.
	RemovePluginPathOperation PluginPathOperation = "remove"
)

// PluginConfig changes one place of containerd's configuration.
type PluginConfig struct {
	// op is add or remove. Empty means add.
	// +optional
	Op *PluginPathOperation `json:"op,omitempty"`
	// path below the table of plugins. Required.
	Path []string `json:"path"`
	// values for the path, any JSON; not with remove.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`
}

// InPlaceUpdates lists the versions that a node must run and the credentials rotations it must have completed.
type InPlaceUpdates struct {
	// operatingSystemVersion is the desired version of the operating system. Required.
	OperatingSystemVersion string `json:"operatingSystemVersion"`
	// kubelet is the desired version of the kubelet. Required.
	KubeletVersion string `json:"kubelet"`
	// credentialsRotation has the times of the last rotations.
	// +optional
	CredentialsRotation *CredentialsRotation `json:"credentialsRotation,omitempty"`
}

// CredentialsRotation has the times of the last rotations.
type CredentialsRotation struct {
	// certificateAuthorities is the rotation of the CAs.
	// +optional
	CertificateAuthorities *CARotation `json:"certificateAuthorities,omitempty"`
	// serviceAccountKey is the rotation of the key that signs service account tokens.
	// +optional
	ServiceAccountKey *ServiceAccountKeyRotation `json:"serviceAccountKey,omitempty"`
}

// CARotation is a rotation of certificate authorities.
type CARotation struct {
	// lastInitiationTime is when it was started last.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
}

// ServiceAccountKeyRotation is a rotation of the key that signs service account tokens.
type ServiceAccountKeyRotation struct {
	// lastInitiationTime is when it was started last.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
}

// CloudConfig names the rendered user data.
type CloudConfig struct {
	// secretRef names the Secret; the user data is under the key cloud_config. Required.
	SecretRef corev1.SecretReference `json:"secretRef"`
}

// OperatingSystemConfigSecretDataKey is the key of the user data in the Secret of status.cloudConfig.
const OperatingSystemConfigSecretDataKey = "cloud_config"

// AuthorizedKeysFile is the path of a file of purpose reconcile: the keys, a line each, that people log in to machines
// with. Without it no logins are possible.
const AuthorizedKeysFile = "/var/lib/gardener-user-authorized-keys"

// InPlaceUpdatesStatus describes how a machine is updated in place.
type InPlaceUpdatesStatus struct {
	// osUpdate updates the operating system.
	// +optional
	OSUpdate *OSUpdate `json:"osUpdate,omitempty"`
}

// OSUpdate is a command that updates the operating system of a machine.
type OSUpdate struct {
	// command is the program's path. Required.
	Command string `json:"command"`
	// args are its arguments.
	// +optional
	Args []string `json:"args,omitempty"`
}

// SSHHostKeyFile is the path of the file in which a machine publishes the public host key of its SSH server, as a line
// of a file of authorized keys. The kubelet serves it among its logs, so that clients need not trust a key blindly.
const SSHHostKeyFile = "/var/log/ssh-host-key.pub"
