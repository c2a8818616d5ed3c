package v1beta1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControllerRegistration announces an extension: the kinds and types it serves and how it is deployed.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ControllerRegistration struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what the extension serves and how it is deployed.
	// +optional
	Spec ControllerRegistrationSpec `json:"spec,omitempty"`
}

// ControllerRegistrationList is a list of ControllerRegistrations.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ControllerRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ControllerRegistrations.
	Items []ControllerRegistration `json:"items"`
}

// ControllerRegistrationSpec is what an extension serves and how it is deployed. Frozen once it is being deleted.
type ControllerRegistrationSpec struct {
	// resources that the extension serves. (kind, type) is unique.
	// +optional
	Resources []ControllerResource `json:"resources,omitempty"`
	// deployment specifies when and from what the extension is installed.
	// +optional
	Deployment *ControllerRegistrationDeployment `json:"deployment,omitempty"`
}

// ClusterType is a kind of cluster that an extension works for.
type ClusterType string

const (
	ClusterTypeShoot ClusterType = "shoot"
	ClusterTypeSeed  ClusterType = "seed"
)

// ControllerResource is a kind and type that an extension serves.
type ControllerResource struct {
	// kind is a kind of the group extensions.gardener.cloud that extensions act on, such as Infrastructure.
	Kind string `json:"kind"`
	// type of the resource, as used by the objects of the extension, such as local.
	Type string `json:"type"`
	// reconcileTimeout is how long a reconciliation may take before the operation reports an error; it keeps waiting.
	// Only kind Extension. Default 3m.
	// +optional
	ReconcileTimeout *metav1.Duration `json:"reconcileTimeout,omitempty"`
	// primary marks the one extension that owns the resource's reconciliation. Default true. Immutable.
	// +optional
	Primary *bool `json:"primary,omitempty"`
	// lifecycle specifies when the resource is handled. Only for Extension.
	// +optional
	Lifecycle *ControllerResourceLifecycle `json:"lifecycle,omitempty"`
	// globallyEnabled is the older spelling of autoEnable: true is the same as autoEnable: [shoot]. Ignored if
	// autoEnable is given. Only for Extension. Deprecated: use autoEnable.
	// +optional
	GloballyEnabled *bool `json:"globallyEnabled,omitempty"`
	// workerlessSupported is true when the extension works for Shoots without workers. Default false.
	// +optional
	WorkerlessSupported *bool `json:"workerlessSupported,omitempty"`
	// autoEnable lists the kinds of clusters that get the extension by default. Only for Extension.
	// +optional
	AutoEnable []ClusterType `json:"autoEnable,omitempty"`
	// clusterCompatibility lists the kinds of clusters that may use the extension. Only for Extension, default shoot.
	// +optional
	ClusterCompatibility []ClusterType `json:"clusterCompatibility,omitempty"`
	// continuousEndpointUpdate keeps endpoints up to date. Only for SelfHostedShootExposure, default true.
	// +optional
	ContinuousEndpointUpdate *bool `json:"continuousEndpointUpdate,omitempty"`
}

// EnabledByDefault reports whether clusters of a kind get the extension unless they disable it: by autoEnable or, if it
// is empty, its older spelling. The older spelling is not turned into a stored default, which would stay when it is
// removed.
func (r *ControllerResource) EnabledByDefault(cluster ClusterType) bool {
	if len(r.AutoEnable) == 0 {
		return cluster == ClusterTypeShoot && deref(r.GloballyEnabled)
	}
	return slices.Contains(r.AutoEnable, cluster)
}

// ControllerResourceLifecycleStrategy is a point in a flow.
type ControllerResourceLifecycleStrategy string

const (
	BeforeKubeAPIServer ControllerResourceLifecycleStrategy = "BeforeKubeAPIServer"
	AfterKubeAPIServer  ControllerResourceLifecycleStrategy = "AfterKubeAPIServer"
	AfterWorker         ControllerResourceLifecycleStrategy = "AfterWorker" // Only for reconcile.
)

// ControllerResourceLifecycle specifies when an Extension is handled.
type ControllerResourceLifecycle struct {
	// reconcile is when it is reconciled. Default AfterKubeAPIServer.
	// +optional
	Reconcile *ControllerResourceLifecycleStrategy `json:"reconcile,omitempty"`
	// delete is when it is deleted. Default BeforeKubeAPIServer.
	// +optional
	Delete *ControllerResourceLifecycleStrategy `json:"delete,omitempty"`
	// migrate is when it is migrated. Default BeforeKubeAPIServer.
	// +optional
	Migrate *ControllerResourceLifecycleStrategy `json:"migrate,omitempty"`
}

// ControllerDeploymentPolicy specifies when an extension is installed.
type ControllerDeploymentPolicy string

const (
	ControllerDeploymentPolicyOnDemand             ControllerDeploymentPolicy = "OnDemand"
	ControllerDeploymentPolicyAlways               ControllerDeploymentPolicy = "Always"
	ControllerDeploymentPolicyAlwaysExceptNoShoots ControllerDeploymentPolicy = "AlwaysExceptNoShoots"
)

// ControllerRegistrationDeployment specifies when and from what an extension is installed.
type ControllerRegistrationDeployment struct {
	// policy is OnDemand, Always or AlwaysExceptNoShoots. Default OnDemand.
	// +optional
	Policy *ControllerDeploymentPolicy `json:"policy,omitempty"`
	// seedSelector limits the Seeds. Not for extensions with primary resources.
	// +optional
	SeedSelector *metav1.LabelSelector `json:"seedSelector,omitempty"`
	// deploymentRefs name ControllerDeployments. At most one.
	// +optional
	DeploymentRefs []DeploymentRef `json:"deploymentRefs,omitempty"`
}

// DeploymentRef names a ControllerDeployment.
type DeploymentRef struct {
	// name of the ControllerDeployment.
	Name string `json:"name"`
}
