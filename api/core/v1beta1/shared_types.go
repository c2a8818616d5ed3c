package v1beta1

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrorCode classifies an error, so that a controller knows whether to retry and a user knows whether to act.
type ErrorCode string

// ConditionType names what a Condition is about.
type ConditionType string

// ConditionStatus is the state of a Condition.
type ConditionStatus string

const (
	ConditionTrue        ConditionStatus = "True"
	ConditionFalse       ConditionStatus = "False"
	ConditionUnknown     ConditionStatus = "Unknown"
	ConditionProgressing ConditionStatus = "Progressing" // Was True, and its threshold has not run out yet.
)

// Condition is one aspect of an object's health.
type Condition struct {
	// type of the condition, such as EveryNodeReady. Unique in its list.
	Type ConditionType `json:"type"`
	// status is True, False, Unknown or Progressing (was True and is given time to recover).
	Status ConditionStatus `json:"status"`
	// lastTransitionTime is when status changed last.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// lastUpdateTime is when status, reason, message or codes changed last.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
	// reason is the cause of the last transition in one CamelCase word.
	Reason string `json:"reason"`
	// message is a human-readable explanation of the status.
	Message string `json:"message"`
	// codes classify the errors behind the status. Empty: none is known.
	// +optional
	Codes []ErrorCode `json:"codes,omitempty"`
}

// LastOperationType is the kind of an operation.
type LastOperationType string

const (
	LastOperationTypeCreate      LastOperationType = "Create"
	LastOperationTypeReconcile   LastOperationType = "Reconcile"
	LastOperationTypeDelete      LastOperationType = "Delete"
	LastOperationTypeMigrate     LastOperationType = "Migrate"
	LastOperationTypeRestore     LastOperationType = "Restore"
	LastOperationTypeLiveMigrate LastOperationType = "LiveMigrate"
)

// LastOperationState is the state of an operation.
type LastOperationState string

const (
	LastOperationStatePending    LastOperationState = "Pending"
	LastOperationStateProcessing LastOperationState = "Processing"
	LastOperationStateSucceeded  LastOperationState = "Succeeded"
	LastOperationStateError      LastOperationState = "Error"  // Retried automatically.
	LastOperationStateFailed     LastOperationState = "Failed" // A user must act or request a retry.
	LastOperationStateAborted    LastOperationState = "Aborted"
)

// LastOperation is the operation that ran last on an object, or runs now.
type LastOperation struct {
	// description is a human-readable description of what is happening or has happened.
	Description string `json:"description"`
	// lastUpdateTime is when this block changed last.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
	// progress is the done share of the work in percent, 0-100.
	Progress int32 `json:"progress"`
	// state is Pending, Processing, Succeeded, Error (retried), Failed (not retried) or Aborted.
	State LastOperationState `json:"state"`
	// type is Create, Reconcile, Delete, Migrate, Restore or LiveMigrate.
	Type LastOperationType `json:"type"`
}

// LastError is one error of the last operation.
type LastError struct {
	// description is a human-readable description of the error.
	Description string `json:"description"`
	// taskID names the step of the flow that failed. Empty: the error belongs to no step.
	// +optional
	TaskID *string `json:"taskID,omitempty"`
	// codes classify the error. Empty: unclassified, retried.
	// +optional
	Codes []ErrorCode `json:"codes,omitempty"`
	// lastUpdateTime is when the error was seen last.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
}

// Gardener identifies the process that worked on an object.
type Gardener struct {
	// id is the container or instance ID of the process.
	ID string `json:"id"`
	// name is the host name of the process, its Pod's name.
	Name string `json:"name"`
	// version is the version of the program.
	Version string `json:"version"`
}

// Toleration lets a Shoot use a Seed that has the matching taint.
type Toleration struct {
	// key is the taint key. Required.
	Key string `json:"key"`
	// value is the taint value. Empty: matches only a taint without value.
	// +optional
	Value *string `json:"value,omitempty"`
}

// SeedSelector chooses Seeds by labels and provider type.
type SeedSelector struct {
	metav1.LabelSelector `json:",inline"`
	// providerTypes are the provider types of the Seeds to consider; "*" allows any. Empty: the type of the
	// CloudProfile that uses the selector.
	// +optional
	ProviderTypes []string `json:"providerTypes,omitempty"`
}

// Extension requests an extension of the given type.
type Extension struct {
	// type of the extension, one that a ControllerRegistration offers as kind Extension. Required; unique in its list.
	Type string `json:"type"`
	// providerConfig is handed to the extension unread.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// disabled switches off an extension that is enabled automatically. Default false.
	// +optional
	Disabled *bool `json:"disabled,omitempty"`
}

// NamedResourceReference names an object in the same namespace.
type NamedResourceReference struct {
	// name is how extensions and other fields refer to the object. Unique in its list.
	Name string `json:"name"`
	// resourceRef is a v1 Secret, a v1 ConfigMap or a security.gardener.cloud/v1alpha1 WorkloadIdentity in the
	// namespace of the object.
	ResourceRef autoscalingv1.CrossVersionObjectReference `json:"resourceRef"`
}

// AccessRestriction is a limit on who may reach a cluster's control plane or data.
type AccessRestriction struct {
	// name of the restriction, such as eu-access-only. Required.
	Name string `json:"name"`
}

// AccessRestrictionWithOptions is an AccessRestriction with further choices.
type AccessRestrictionWithOptions struct {
	AccessRestriction `json:",inline"`
	// options of the restriction; their meaning belongs to the restriction.
	// +optional
	Options map[string]string `json:"options,omitempty"`
}

// CloudProfileReference names a CloudProfile or a NamespacedCloudProfile.
type CloudProfileReference struct {
	// kind is CloudProfile or NamespacedCloudProfile (in the same namespace). Default CloudProfile.
	Kind string `json:"kind"`
	// name of the profile. Required.
	Name string `json:"name"`
}

// HighAvailability specifies which failures a control plane survives.
type HighAvailability struct {
	// failureTolerance is what the control plane survives without an outage.
	FailureTolerance FailureTolerance `json:"failureTolerance"`
}

// FailureTolerance is what may fail without an outage.
type FailureTolerance struct {
	// type is what may fail: node, one node of the Seed, or zone, one of its zones, of which it must have three.
	Type FailureToleranceType `json:"type"`
}

// FailureToleranceType is what may fail without an outage.
type FailureToleranceType string

const (
	FailureToleranceTypeNode FailureToleranceType = "node"
	FailureToleranceTypeZone FailureToleranceType = "zone"
)

// IPFamily is a family of IP addresses.
type IPFamily string

const (
	IPFamilyIPv4 IPFamily = "IPv4"
	IPFamilyIPv6 IPFamily = "IPv6"
)

// ControlPlaneAutoscaling bounds the vertical scaling of a control plane component.
type ControlPlaneAutoscaling struct {
	// minAllowed is the least cpu and memory the component is given.
	MinAllowed corev1.ResourceList `json:"minAllowed,omitempty"`
}

// CRIName names a container runtime interface implementation.
type CRIName string

// CRINameContainerD is the only supported implementation.
const CRINameContainerD CRIName = "containerd"

// CRI is the container runtime of machines.
type CRI struct {
	// name is containerd.
	Name CRIName `json:"name"`
	// containerRuntimes are additional low-level runtimes, which extensions install on the machines.
	// +optional
	ContainerRuntimes []ContainerRuntime `json:"containerRuntimes,omitempty"`
}

// ContainerRuntime is a low-level runtime such as gvisor.
type ContainerRuntime struct {
	// type of the runtime, one that a ControllerRegistration offers as kind ContainerRuntime. Unique in its list.
	Type string `json:"type"`
	// providerConfig is handed to the runtime's extension unread.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// VersionClassification is the lifecycle stage of a version.
type VersionClassification string

const (
	ClassificationUnavailable VersionClassification = "unavailable" // Only in a lifecycle: not offered yet.
	ClassificationPreview     VersionClassification = "preview"
	ClassificationSupported   VersionClassification = "supported"
	ClassificationDeprecated  VersionClassification = "deprecated"
	ClassificationExpired     VersionClassification = "expired" // Derived from the expiration date, or a lifecycle stage.
)

// ExpirableVersion is an offered version and its lifecycle stages.
type ExpirableVersion struct {
	// version such as 1.36.3. Unique in its list.
	Version string `json:"version"`
	// expirationDate is when the version stops being offered; clusters that still use it are updated in their
	// next maintenance. Empty: never.
	// +optional
	ExpirationDate *metav1.Time `json:"expirationDate,omitempty"`
	// classification is preview, supported or deprecated. Empty: offered like supported, but not limited to one
	// per minor.
	// +optional
	Classification *VersionClassification `json:"classification,omitempty"`
	// lifecycle lists the stages with their start times, in order. Excludes classification and expirationDate.
	// +optional
	Lifecycle []LifecycleStage `json:"lifecycle,omitempty"`
}

// LifecycleStage is a classification from a point in time on.
type LifecycleStage struct {
	// classification is unavailable, preview, supported, deprecated or expired. Unique in its list.
	Classification VersionClassification `json:"classification"`
	// startTime is when the stage begins. Empty, in the first stage only: since ever.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
}
