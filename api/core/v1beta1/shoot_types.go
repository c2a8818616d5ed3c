package v1beta1

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Shoot is a Kubernetes cluster of a project.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Shoot struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec describes the cluster. Frozen once the Shoot is being deleted.
	// +optional
	Spec ShootSpec `json:"spec,omitempty"`
	// status is what is known about the cluster.
	// +optional
	Status ShootStatus `json:"status,omitempty"`
}

// ShootList is a list of Shoots.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ShootList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Shoots.
	Items []Shoot `json:"items"`
}

// ShootPurpose is what a Shoot is used for.
type ShootPurpose string

const (
	ShootPurposeEvaluation     ShootPurpose = "evaluation"
	ShootPurposeTesting        ShootPurpose = "testing"
	ShootPurposeDevelopment    ShootPurpose = "development"
	ShootPurposeProduction     ShootPurpose = "production"
	ShootPurposeInfrastructure ShootPurpose = "infrastructure" // Only in the namespace garden.
)

// ShootSpec describes a cluster.
type ShootSpec struct {
	// addons are optional components of the cluster, for the purpose evaluation only. Deprecated. No effect here: they
	// are not deployed.
	// +optional
	Addons *Addons `json:"addons,omitempty"`
	// cloudProfileName is the older spelling of cloudProfile and kept equal to its name when its kind is
	// CloudProfile. Deprecated.
	// +optional
	CloudProfileName *string `json:"cloudProfileName,omitempty"`
	// dns holds the cluster's domain and the providers that manage its records.
	// +optional
	DNS *DNS `json:"dns,omitempty"`
	// extensions are added to the cluster, each type once; ControllerRegistrations list the available types. An
	// extension that every cluster gets is switched off here with disabled.
	// +optional
	Extensions []Extension `json:"extensions,omitempty"`
	// hibernation stops the cluster while it is not needed.
	// +optional
	Hibernation *Hibernation `json:"hibernation,omitempty"`
	// kubernetes holds the version and the settings of the Kubernetes components.
	Kubernetes Kubernetes `json:"kubernetes"`
	// networking holds the address ranges and the network extension. Default {}.
	// +optional
	Networking *Networking `json:"networking,omitempty"`
	// maintenance specifies when and how the cluster is kept up to date.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`
	// monitoring lists the receivers of alerts. No effect here: no alerts are sent.
	// +optional
	Monitoring *Monitoring `json:"monitoring,omitempty"`
	// provider holds the infrastructure and the worker pools.
	Provider Provider `json:"provider"`
	// purpose is evaluation, testing, development, production or infrastructure (in the namespace garden only).
	// Default evaluation.
	// +optional
	Purpose *ShootPurpose `json:"purpose,omitempty"`
	// region of the infrastructure, one of the CloudProfile. Required; immutable.
	Region string `json:"region"`
	// secretBindingName names a SecretBinding with the infrastructure's credentials. Excludes
	// credentialsBindingName, to which it may be changed. Deprecated.
	// +optional
	SecretBindingName *string `json:"secretBindingName,omitempty"`
	// seedName is the Seed that is to host the control plane. Set by the scheduler; changed only through the
	// subresource binding once set.
	// +optional
	SeedName *string `json:"seedName,omitempty"`
	// seedSelector limits the Seeds that the scheduler considers.
	// +optional
	SeedSelector *SeedSelector `json:"seedSelector,omitempty"`
	// resources are objects of the Shoot's namespace that extensions and other fields refer to by name.
	// +optional
	Resources []NamedResourceReference `json:"resources,omitempty"`
	// tolerations are the taints of Seeds that the Shoot tolerates. New ones must be allowed to its project. Default
	// those of the project.
	// +optional
	// +patchMergeKey=key
	// +patchStrategy=merge
	Tolerations []Toleration `json:"tolerations,omitempty" patchStrategy:"merge" patchMergeKey:"key"`
	// exposureClassName names an ExposureClass, which limits the Seeds to choose from. Beyond that it has no effect
	// here.
	// +optional
	ExposureClassName *string `json:"exposureClassName,omitempty"`
	// systemComponents holds settings of the components in kube-system.
	// +optional
	SystemComponents *SystemComponents `json:"systemComponents,omitempty"`
	// controlPlane holds settings of the control plane as a whole.
	// +optional
	ControlPlane *ControlPlane `json:"controlPlane,omitempty"`
	// schedulerName names the scheduler that chooses the Seed. Default default-scheduler. Immutable.
	// +optional
	SchedulerName *string `json:"schedulerName,omitempty"`
	// cloudProfile is the offer that the cluster is made from. Required.
	// +optional
	CloudProfile *CloudProfileReference `json:"cloudProfile,omitempty"`
	// credentialsBindingName names a CredentialsBinding with the infrastructure's credentials. Required with
	// workers, unless secretBindingName is given.
	// +optional
	CredentialsBindingName *string `json:"credentialsBindingName,omitempty"`
	// accessRestrictions that the region and the Seed must fulfil.
	// +optional
	AccessRestrictions []AccessRestrictionWithOptions `json:"accessRestrictions,omitempty"`
}

// Networking holds a cluster's address ranges and network extension.
type Networking struct {
	// type of the network extension, such as calico; one that a ControllerRegistration offers as kind Network.
	// Required with workers; immutable.
	// +optional
	Type *string `json:"type,omitempty"`
	// providerConfig is read by the network extension only.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// pods is the CIDR of the pods. Default: the Seed's shootDefaults. Immutable once set.
	// +optional
	Pods *string `json:"pods,omitempty"`
	// nodes is the CIDR of the nodes, such as 10.250.0.0/16; apart from pods and services.
	// +optional
	Nodes *string `json:"nodes,omitempty"`
	// services is the CIDR of the services. Default: the Seed's shootDefaults. Immutable once set.
	// +optional
	Services *string `json:"services,omitempty"`
	// ipFamilies of the cluster: IPv4, IPv6 or both. Default IPv4. Can change only between [IPv4] and [IPv4, IPv6].
	// +optional
	IPFamilies []IPFamily `json:"ipFamilies,omitempty"`
}

// DNS holds a cluster's domain and the providers that manage its records.
type DNS struct {
	// domain under which the cluster is reachable. Default: made from the Seed's default domain. Immutable once set.
	// +optional
	Domain *string `json:"domain,omitempty"`
	// providers manage the records: the primary one those of the cluster itself, others are for extensions. Deprecated
	// as a list.
	// +optional
	Providers []DNSProvider `json:"providers,omitempty"`
}

// DNSUnmanaged is the DNS provider type of Shoots that have no external records.
const DNSUnmanaged = "unmanaged"

// DNSProvider manages DNS records.
type DNSProvider struct {
	// domains to include or exclude. Deprecated, no effect.
	// +optional
	Domains *DNSIncludeExclude `json:"domains,omitempty"`
	// primary marks the provider of the cluster's own records. Default: the first, if none is marked.
	// +optional
	Primary *bool `json:"primary,omitempty"`
	// secretName is the older spelling of credentialsRef, kept equal to it when that names a Secret. Deprecated.
	// +optional
	SecretName *string `json:"secretName,omitempty"`
	// type of the provider, one that a ControllerRegistration offers as kind DNSRecord; unmanaged for no records.
	// +optional
	Type *string `json:"type,omitempty"`
	// zones to include or exclude. Deprecated, no effect.
	// +optional
	Zones *DNSIncludeExclude `json:"zones,omitempty"`
	// credentialsRef is the Secret or WorkloadIdentity in the Shoot's namespace for the provider.
	// +optional
	CredentialsRef *autoscalingv1.CrossVersionObjectReference `json:"credentialsRef,omitempty"`
}

// DNSIncludeExclude lists names to include and to exclude.
type DNSIncludeExclude struct {
	// include lists the names to include. No effect.
	// +optional
	Include []string `json:"include,omitempty"`
	// exclude lists the names to exclude. No effect.
	// +optional
	Exclude []string `json:"exclude,omitempty"`
}

// Maintenance specifies when and how a cluster is kept up to date.
type Maintenance struct {
	// autoUpdate specifies what is updated automatically. Default Kubernetes patches and machine images.
	// +optional
	AutoUpdate *MaintenanceAutoUpdate `json:"autoUpdate,omitempty"`
	// timeWindow is when. Default a random hour, chosen at creation.
	// +optional
	TimeWindow *MaintenanceTimeWindow `json:"timeWindow,omitempty"`
	// confineSpecUpdateRollout delays the rollout of spec changes to the time window. Default false.
	// +optional
	ConfineSpecUpdateRollout *bool `json:"confineSpecUpdateRollout,omitempty"`
	// autoRotation specifies which credentials are rotated automatically.
	// +optional
	AutoRotation *MaintenanceAutoRotation `json:"autoRotation,omitempty"`
}

// MaintenanceAutoUpdate specifies what is updated automatically.
type MaintenanceAutoUpdate struct {
	// kubernetesVersion lets the Kubernetes patch version be updated. Default true.
	KubernetesVersion bool `json:"kubernetesVersion"`
	// machineImageVersion lets machine image versions be updated. Default true with workers.
	// +optional
	MachineImageVersion *bool `json:"machineImageVersion,omitempty"`
}

// MaintenanceTimeWindow is a daily window in the form HHMMSS+ZZZZ, for example 220000+0100. It lasts between
// 30 minutes and 6 hours and may pass midnight.
type MaintenanceTimeWindow struct {
	// begin of the window, HHMMSS+ZZZZ. Default a random full hour, 00 to 22 UTC.
	Begin string `json:"begin"`
	// end of the window, HHMMSS+ZZZZ; one that is not later than begin is on the next day. Default one hour after
	// begin.
	End string `json:"end"`
}

// MaintenanceAutoRotation specifies which credentials are rotated automatically.
type MaintenanceAutoRotation struct {
	// credentials specifies how often each kind of credentials is rotated.
	// +optional
	Credentials *MaintenanceCredentialsAutoRotation `json:"credentials,omitempty"`
}

// MaintenanceCredentialsAutoRotation specifies which credentials are rotated automatically.
type MaintenanceCredentialsAutoRotation struct {
	// observability credentials. Empty: not rotated.
	// +optional
	Observability *MaintenanceRotationConfig `json:"observability,omitempty"`
	// sshKeypair of the machines. Empty: not rotated.
	// +optional
	SSHKeypair *MaintenanceRotationConfig `json:"sshKeypair,omitempty"`
	// etcdEncryptionKey is set to 672h by admission when a Shoot is created.
	// +optional
	ETCDEncryptionKey *MaintenanceRotationConfig `json:"etcdEncryptionKey,omitempty"`
}

// MaintenanceRotationConfig specifies how often a credential is rotated.
type MaintenanceRotationConfig struct {
	// rotationPeriod is 30m to 2160h; 0 switches the rotation off. Default 168h.
	// +optional
	RotationPeriod *metav1.Duration `json:"rotationPeriod,omitempty"`
}

// Hibernation stops a cluster while it is not needed.
type Hibernation struct {
	// enabled is true to hibernate and false to wake up. Empty: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// schedules set enabled at certain times, for example in the evening and in the morning. A change by hand holds
	// until the next of them.
	// +optional
	Schedules []HibernationSchedule `json:"schedules,omitempty"`
}

// HibernationSchedule switches hibernation at set times. At least one of start and end is given.
type HibernationSchedule struct {
	// start is a cron expression of five fields, or a descriptor, for hibernating.
	// +optional
	Start *string `json:"start,omitempty"`
	// end is a cron expression of five fields, or a descriptor, for waking up.
	// +optional
	End *string `json:"end,omitempty"`
	// location is the IANA time zone of the expressions. Empty: UTC.
	// +optional
	Location *string `json:"location,omitempty"`
}

// Addons are optional components. Deprecated.
type Addons struct {
	// kubernetesDashboard is the dashboard of that name.
	// +optional
	KubernetesDashboard *KubernetesDashboard `json:"kubernetesDashboard,omitempty"`
	// nginxIngress is the ingress controller of that name.
	// +optional
	NginxIngress *NginxIngress `json:"nginxIngress,omitempty"`
}

// Addon can be switched.
type Addon struct {
	// enabled switches the addon. No effect here: addons are not deployed.
	Enabled bool `json:"enabled"`
}

// KubernetesDashboard is the dashboard of that name.
type KubernetesDashboard struct {
	Addon `json:",inline"`
	// authenticationMode is token. Default token.
	// +optional
	AuthenticationMode *string `json:"authenticationMode,omitempty"`
}

// NginxIngress is the ingress controller of that name.
type NginxIngress struct {
	Addon `json:",inline"`
	// loadBalancerSourceRanges are the CIDRs that may connect. Empty: all.
	// +optional
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`
	// config is added to the ConfigMap of the controller, by its own keys.
	// +optional
	Config map[string]string `json:"config,omitempty"`
	// externalTrafficPolicy is Cluster or Local. Default Cluster.
	// +optional
	ExternalTrafficPolicy *ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
}

// ServiceExternalTrafficPolicy is the policy of a Service: Cluster or Local.
type ServiceExternalTrafficPolicy string

const (
	ServiceExternalTrafficPolicyCluster ServiceExternalTrafficPolicy = "Cluster"
	ServiceExternalTrafficPolicyLocal   ServiceExternalTrafficPolicy = "Local"
)

// Monitoring lists the receivers of alerts.
type Monitoring struct {
	// alerting lists the receivers of alerts.
	// +optional
	Alerting *Alerting `json:"alerting,omitempty"`
}

// Alerting holds the receivers of alerts.
type Alerting struct {
	// emailReceivers are plain addresses such as ops@example.org. Unique.
	// +optional
	EmailReceivers []string `json:"emailReceivers,omitempty"`
}

// SystemComponents holds settings of the components in kube-system.
type SystemComponents struct {
	// coreDNS holds settings of CoreDNS, which resolves names in the cluster.
	// +optional
	CoreDNS *CoreDNS `json:"coreDNS,omitempty"`
	// nodeLocalDNS holds settings of the DNS cache on nodes. No effect here: there is none.
	// +optional
	NodeLocalDNS *NodeLocalDNS `json:"nodeLocalDNS,omitempty"`
}

// CoreDNS holds settings of CoreDNS.
type CoreDNS struct {
	// autoscaling specifies how the number of CoreDNS pods is chosen. No effect here: it is fixed.
	// +optional
	Autoscaling *CoreDNSAutoscaling `json:"autoscaling,omitempty"`
	// rewriting resolves external names directly that pods would look up under every search domain first.
	// +optional
	Rewriting *CoreDNSRewriting `json:"rewriting,omitempty"`
}

// CoreDNSAutoscalingMode is the autoscaling mode of CoreDNS.
type CoreDNSAutoscalingMode string

const (
	CoreDNSAutoscalingModeHorizontal          CoreDNSAutoscalingMode = "horizontal"
	CoreDNSAutoscalingModeClusterProportional CoreDNSAutoscalingMode = "cluster-proportional"
)

// CoreDNSAutoscaling specifies how CoreDNS is scaled.
type CoreDNSAutoscaling struct {
	// mode is horizontal or cluster-proportional. Default horizontal; unknown modes are replaced by it.
	Mode CoreDNSAutoscalingMode `json:"mode"`
}

// CoreDNSRewriting avoids needless queries.
type CoreDNSRewriting struct {
	// commonSuffixes are suffixes of external names, each with an inner dot.
	// +optional
	CommonSuffixes []string `json:"commonSuffixes,omitempty"`
}

// NodeLocalDNS holds settings of the DNS cache on nodes.
type NodeLocalDNS struct {
	// enabled switches the cache. A change replaces the nodes.
	Enabled bool `json:"enabled"`
	// forceTCPToClusterDNS specifies whether the cache queries CoreDNS over TCP. Default true.
	// +optional
	ForceTCPToClusterDNS *bool `json:"forceTCPToClusterDNS,omitempty"`
	// forceTCPToUpstreamDNS specifies whether the cache queries the infrastructure's DNS over TCP. Default true.
	// +optional
	ForceTCPToUpstreamDNS *bool `json:"forceTCPToUpstreamDNS,omitempty"`
	// disableForwardToUpstreamDNS sends all queries to CoreDNS. Default false.
	// +optional
	DisableForwardToUpstreamDNS *bool `json:"disableForwardToUpstreamDNS,omitempty"`
}

// ControlPlane holds settings of the control plane as a whole.
type ControlPlane struct {
	// highAvailability specifies which failures the control plane survives. Empty: none without an outage.
	// +optional
	HighAvailability *HighAvailability `json:"highAvailability,omitempty"`
	// zones of the Seed for the control plane; one, or three with zone tolerance. Immutable once set. The Shoot is
	// scheduled to a Seed with all of them; in which of its zones the control plane runs, the Seed's own scheduler
	// chooses.
	// +optional
	Zones []string `json:"zones,omitempty"`
}
