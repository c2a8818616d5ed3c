package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Seed is a cluster that hosts the control planes of Shoots.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Seed struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec describes the cluster and what it is used for.
	Spec SeedSpec `json:"spec,omitempty"`
	// status is written by the seed's gardenlet and by the garden's controllers.
	// +optional
	Status SeedStatus `json:"status,omitempty"`
}

// SeedList is a list of Seeds.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type SeedList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Seeds.
	Items []Seed `json:"items"`
}

// SeedTemplate is a Seed inside another object's configuration.
type SeedTemplate struct {
	// metadata of the Seed.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec of the Seed.
	// +optional
	Spec SeedSpec `json:"spec,omitempty"`
}

// SeedSpec describes a seed cluster and what it is used for.
type SeedSpec struct {
	// backup is where the control planes hosted here keep their backups. Empty: no backups. Cannot be removed.
	// +optional
	Backup *Backup `json:"backup,omitempty"`
	// dns holds the providers and domains for the seed and its Shoots.
	DNS SeedDNS `json:"dns"`
	// networks are the address ranges of the seed cluster.
	Networks SeedNetworks `json:"networks"`
	// provider is the infrastructure of the seed cluster.
	Provider SeedProvider `json:"provider"`
	// taints keep Shoots away that do not tolerate them.
	// +optional
	Taints []SeedTaint `json:"taints,omitempty"`
	// volume holds properties of volumes in the seed cluster. No effect here: volumes are requested as they are
	// needed.
	// +optional
	Volume *SeedVolume `json:"volume,omitempty"`
	// settings switch features of the seed. Several have no effect here; their author is warned.
	// +optional
	Settings *SeedSettings `json:"settings,omitempty"`
	// ingress is the seed cluster's ingress. Required.
	// +optional
	Ingress *Ingress `json:"ingress,omitempty"`
	// accessRestrictions are the restrictions that this seed can fulfil.
	// +optional
	AccessRestrictions []AccessRestriction `json:"accessRestrictions,omitempty"`
	// extensions are deployed to the seed.
	// +optional
	Extensions []Extension `json:"extensions,omitempty"`
	// resources are objects in the namespace garden that extensions of the seed use.
	// +optional
	Resources []NamedResourceReference `json:"resources,omitempty"`
}

// Backup is an object store for backups of control planes.
type Backup struct {
	// provider type of the object store. Immutable.
	Provider string `json:"provider"`
	// providerConfig is handed to the provider's extension unread.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// region of the object store. Default: the seed's region. Immutable.
	// +optional
	Region *string `json:"region,omitempty"`
	// credentialsRef is the v1 Secret or security.gardener.cloud/v1alpha1 WorkloadIdentity for the object store.
	// +optional
	CredentialsRef *corev1.ObjectReference `json:"credentialsRef,omitempty"`
	// secretRef is the older spelling of credentialsRef and kept equal to it when that names a Secret. Deprecated.
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
}

// SeedDNS holds the providers and domains for a seed and its Shoots.
type SeedDNS struct {
	// provider manages the records of the seed's own ingress.
	// +optional
	Provider *SeedDNSProvider `json:"provider,omitempty"`
	// internal is the domain under which Shoots' API servers are always reachable.
	// +optional
	Internal *SeedDNSProviderConfig `json:"internal,omitempty"`
	// defaults are domains of Shoots that have none of their own.
	// +optional
	Defaults []SeedDNSProviderConfig `json:"defaults,omitempty"`
}

// SeedDNSProvider manages the records of a seed's ingress.
type SeedDNSProvider struct {
	// type of the DNS provider.
	Type string `json:"type"`
	// credentialsRef is the v1 Secret or security.gardener.cloud/v1alpha1 WorkloadIdentity for the provider.
	// +optional
	CredentialsRef *corev1.ObjectReference `json:"credentialsRef,omitempty"`
	// secretRef is the older spelling of credentialsRef and kept equal to it when that names a Secret. Deprecated.
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
}

// SeedDNSProviderConfig is a domain and the provider that manages its records.
type SeedDNSProviderConfig struct {
	// type of the DNS provider.
	Type string `json:"type"`
	// domain below which records are made.
	Domain string `json:"domain"`
	// zone is the provider's ID of the hosted zone. Empty: found by the domain.
	// +optional
	Zone *string `json:"zone,omitempty"`
	// credentialsRef is the v1 Secret or security.gardener.cloud/v1alpha1 WorkloadIdentity for the provider.
	CredentialsRef corev1.ObjectReference `json:"credentialsRef"`
}

// Ingress is the ingress of a seed cluster.
type Ingress struct {
	// domain below which the seed's ingress hosts live. Immutable.
	Domain string `json:"domain"`
	// controller is the kind of ingress controller.
	Controller IngressController `json:"controller"`
}

// IngressController is a kind of ingress controller.
type IngressController struct {
	// kind is nginx.
	Kind string `json:"kind"`
	// providerConfig is the controller's own configuration.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// SeedNetworks are the address ranges of a seed cluster.
type SeedNetworks struct {
	// nodes is the CIDR of the nodes. Immutable once set.
	// +optional
	Nodes *string `json:"nodes,omitempty"`
	// pods is the CIDR of the pods. Immutable.
	Pods string `json:"pods"`
	// services is the CIDR of the services. Immutable.
	Services string `json:"services"`
	// shootDefaults are given to Shoots that leave their ranges empty.
	// +optional
	ShootDefaults *ShootNetworks `json:"shootDefaults,omitempty"`
	// blockCIDRs are ranges that API servers of Shoots must not reach when they call webhooks, issuers of tokens and other
	// URLs that users of Shoots choose. The ranges above, the Shoot's own, and link-local, loopback and other special
	// addresses are always blocked. Default empty.
	// +optional
	BlockCIDRs []string `json:"blockCIDRs,omitempty"`
	// ipFamilies of the seed cluster. Default IPv4. Immutable.
	// +optional
	IPFamilies []IPFamily `json:"ipFamilies,omitempty"`
}

// ShootNetworks are address ranges for Shoots.
type ShootNetworks struct {
	// pods is the CIDR of the pods.
	// +optional
	Pods *string `json:"pods,omitempty"`
	// services is the CIDR of the services.
	// +optional
	Services *string `json:"services,omitempty"`
}

// SeedProvider is the infrastructure of a seed cluster.
type SeedProvider struct {
	// type of the infrastructure, such as local. Required.
	Type string `json:"type"`
	// providerConfig is read by extensions only.
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// region of the seed cluster. Required.
	Region string `json:"region"`
	// zones of the seed cluster's nodes. Three are needed for control planes that survive the loss of one. Unique.
	// +optional
	Zones []string `json:"zones,omitempty"`
}

// SeedTaint keeps Shoots away that do not tolerate it.
type SeedTaint struct {
	// key of the taint, such as seed.gardener.cloud/protected. Required.
	Key string `json:"key"`
	// value of the taint. Empty: any toleration of the key matches.
	// +optional
	Value *string `json:"value,omitempty"`
}

// SeedVolume holds what to know about volumes in a seed cluster.
type SeedVolume struct {
	// minimumSize of volumes in bytes; smaller requests are raised to it.
	// +optional
	MinimumSize *resource.Quantity `json:"minimumSize,omitempty"`
	// providers choose a StorageClass by purpose.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Providers []SeedVolumeProvider `json:"providers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// SeedVolumeProvider chooses a StorageClass for a purpose.
type SeedVolumeProvider struct {
	// purpose of the volumes, for example etcd-main. Unique.
	Purpose string `json:"purpose"`
	// name of the volume provider.
	Name string `json:"name"`
}

// SeedSettings switch features of a seed.
type SeedSettings struct {
	// excessCapacityReservation keeps room for new control planes. Empty: none is kept. No effect here: no room is
	// kept.
	// +optional
	ExcessCapacityReservation *SeedSettingExcessCapacityReservation `json:"excessCapacityReservation,omitempty"`
	// scheduling specifies whether new Shoots are placed here. Default visible.
	// +optional
	Scheduling *SeedSettingScheduling `json:"scheduling,omitempty"`
	// loadBalancerServices shape the seed's load balancers. No effect here beyond annotations.
	// +optional
	LoadBalancerServices *SeedSettingLoadBalancerServices `json:"loadBalancerServices,omitempty"`
	// verticalPodAutoscaler specifies whether a vertical pod autoscaler is deployed to the seed. Default enabled. No
	// effect here: no Seed gets one.
	// +optional
	VerticalPodAutoscaler *SeedSettingVerticalPodAutoscaler `json:"verticalPodAutoscaler,omitempty"`
	// dependencyWatchdog restarts or scales control plane components that depend on others. Default enabled. No effect
	// here: there is none.
	// +optional
	DependencyWatchdog *SeedSettingDependencyWatchdog `json:"dependencyWatchdog,omitempty"`
	// topologyAwareRouting keeps traffic inside a zone. Default disabled. No effect here: traffic may leave its zone.
	// +optional
	TopologyAwareRouting *SeedSettingTopologyAwareRouting `json:"topologyAwareRouting,omitempty"`
	// zoneSelection specifies how strictly Shoots with workers in none of the seed's zones are kept off the seed. Default:
	// not at all.
	// +optional
	ZoneSelection *SeedSettingZoneSelection `json:"zoneSelection,omitempty"`
	// persistentVolumeClaimAutoscaler grows volumes that run full. Default disabled. No effect here: volumes keep
	// their size.
	// +optional
	PersistentVolumeClaimAutoscaler *SeedSettingPersistentVolumeClaimAutoscaler `json:"persistentVolumeClaimAutoscaler,omitempty"`
}

// SeedSettingExcessCapacityReservation keeps room for new control planes.
type SeedSettingExcessCapacityReservation struct {
	// enabled switches the reservation. Empty: enabled.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// configs are the reserved blocks. Default one of 2 CPUs and 6Gi, unless disabled.
	// +optional
	Configs []SeedSettingExcessCapacityReservationConfig `json:"configs,omitempty"`
}

// SeedSettingExcessCapacityReservationConfig is one reserved block.
type SeedSettingExcessCapacityReservationConfig struct {
	// resources of the block. Required.
	Resources corev1.ResourceList `json:"resources"`
	// nodeSelector selects the nodes.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of the block's pods.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// SeedSettingScheduling specifies whether new Shoots are placed on a seed.
type SeedSettingScheduling struct {
	// visible is false when the scheduler must not choose this seed.
	Visible bool `json:"visible"`
}

// SeedSettingLoadBalancerServices shape a seed's load balancers.
type SeedSettingLoadBalancerServices struct {
	// annotations of the Services.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// externalTrafficPolicy of the Services: Cluster or Local. Empty: Cluster.
	// +optional
	ExternalTrafficPolicy *corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
	// zones override the settings for single zones.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Zones []SeedSettingLoadBalancerServicesZones `json:"zones,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// proxyProtocol specifies whether load balancers may use the PROXY protocol.
	// +optional
	ProxyProtocol *LoadBalancerServicesProxyProtocol `json:"proxyProtocol,omitempty"`
	// zonalIngress specifies whether each zone has a gateway of its own. Default enabled.
	// +optional
	ZonalIngress *SeedSettingLoadBalancerServicesZonalIngress `json:"zonalIngress,omitempty"`
	// class is the loadBalancerClass of the Services. Empty: the cluster's default.
	// +optional
	Class *string `json:"class,omitempty"`
}

// SeedSettingLoadBalancerServicesZones override load balancer settings for a zone.
type SeedSettingLoadBalancerServicesZones struct {
	// name of the zone, one of spec.provider.zones.
	Name string `json:"name"`
	// annotations of the zone's Service.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// externalTrafficPolicy of the zone's Service: Cluster or Local.
	// +optional
	ExternalTrafficPolicy *corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
	// proxyProtocol specifies whether the zone's load balancer may use the PROXY protocol.
	// +optional
	ProxyProtocol *LoadBalancerServicesProxyProtocol `json:"proxyProtocol,omitempty"`
}

// LoadBalancerServicesProxyProtocol specifies whether a load balancer may use the PROXY protocol.
type LoadBalancerServicesProxyProtocol struct {
	// allowed is true when gateways accept the PROXY protocol.
	Allowed bool `json:"allowed"`
}

// SeedSettingLoadBalancerServicesZonalIngress specifies whether each zone has a gateway of its own.
type SeedSettingLoadBalancerServicesZonalIngress struct {
	// enabled switches the zonal gateways. Default true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// SeedSettingVerticalPodAutoscaler specifies whether a vertical pod autoscaler is deployed to a seed.
type SeedSettingVerticalPodAutoscaler struct {
	// enabled switches it. Default true.
	Enabled bool `json:"enabled"`
	// featureGates of the autoscaler.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// maxAllowed bounds its recommendations.
	// +optional
	MaxAllowed corev1.ResourceList `json:"maxAllowed,omitempty"`
}

// SeedSettingDependencyWatchdog switches the watchdog's two parts.
type SeedSettingDependencyWatchdog struct {
	// weeder restarts pods that crash-loop after their dependency recovered. Default enabled.
	// +optional
	Weeder *SeedSettingDependencyWatchdogWeeder `json:"weeder,omitempty"`
	// prober scales controllers down while the API server cannot be reached through its external address. Default enabled.
	// +optional
	Prober *SeedSettingDependencyWatchdogProber `json:"prober,omitempty"`
}

// SeedSettingDependencyWatchdogWeeder switches the weeder.
type SeedSettingDependencyWatchdogWeeder struct {
	// enabled switches it. Default true.
	Enabled bool `json:"enabled"`
}

// SeedSettingDependencyWatchdogProber switches the prober.
type SeedSettingDependencyWatchdogProber struct {
	// enabled switches it. Default true.
	Enabled bool `json:"enabled"`
}

// SeedSettingTopologyAwareRouting keeps traffic inside a zone.
type SeedSettingTopologyAwareRouting struct {
	// enabled switches it. Default false; needs two zones.
	Enabled bool `json:"enabled"`
}

// ZoneSelectionMode says how strictly Shoots with workers in other zones are kept off a seed.
type ZoneSelectionMode string

const (
	ZoneSelectionPrefer  ZoneSelectionMode = "Prefer"
	ZoneSelectionEnforce ZoneSelectionMode = "Enforce"
)

// SeedSettingZoneSelection keeps Shoots off a seed that have workers, but in none of its zones.
type SeedSettingZoneSelection struct {
	// mode is Enforce: they are not scheduled to the seed, or Prefer: only if no other seed fits.
	Mode ZoneSelectionMode `json:"mode"`
}

// SeedSettingPersistentVolumeClaimAutoscaler grows volumes that run full.
type SeedSettingPersistentVolumeClaimAutoscaler struct {
	// enabled switches it. Default false.
	Enabled bool `json:"enabled"`
}

// SeedStatus is written by a seed's gardenlet and by the garden's controllers.
type SeedStatus struct {
	// gardener is the gardenlet that serves the seed.
	// +optional
	Gardener *Gardener `json:"gardener,omitempty"`
	// kubernetesVersion of the seed cluster.
	// +optional
	KubernetesVersion *string `json:"kubernetesVersion,omitempty"`
	// conditions of the seed.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// observedGeneration is the generation that the gardenlet has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// clusterIdentity identifies the seed cluster. Immutable once set.
	// +optional
	ClusterIdentity *string `json:"clusterIdentity,omitempty"`
	// capacity is what the seed offers; the key shoots counts Shoots.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// allocatable is capacity less reservations. Empty: no limit.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// clientCertificateExpirationTimestamp is when the gardenlet's client certificate expires.
	// +optional
	ClientCertificateExpirationTimestamp *metav1.Time `json:"clientCertificateExpirationTimestamp,omitempty"`
	// lastOperation on the seed.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
}
