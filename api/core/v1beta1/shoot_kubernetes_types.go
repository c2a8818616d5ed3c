package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubernetes holds the version and the settings of the Kubernetes components.
type Kubernetes struct {
	// clusterAutoscaler holds settings of the cluster autoscaler, which adds and removes machines. No effect here:
	// there is none, pools keep their minimum.
	// +optional
	ClusterAutoscaler *ClusterAutoscaler `json:"clusterAutoscaler,omitempty"`
	// kubeAPIServer holds settings of the API server. Default {}.
	// +optional
	KubeAPIServer *KubeAPIServerConfig `json:"kubeAPIServer,omitempty"`
	// kubeControllerManager holds settings of the controller manager. Default {} with workers.
	// +optional
	KubeControllerManager *KubeControllerManagerConfig `json:"kubeControllerManager,omitempty"`
	// kubeScheduler holds settings of the scheduler of pods. Default {} with workers.
	// +optional
	KubeScheduler *KubeSchedulerConfig `json:"kubeScheduler,omitempty"`
	// kubeProxy holds settings of kube-proxy, which routes connections to Services. Default {} with workers.
	// +optional
	KubeProxy *KubeProxyConfig `json:"kubeProxy,omitempty"`
	// kubelet holds settings of the kubelets of all pools without kubelet settings of their own.
	// +optional
	Kubelet *KubeletConfig `json:"kubelet,omitempty"`
	// version of the control plane: "", 1, 1.36 or 1.36.3. Stored in full; incomplete ones are completed with the
	// highest supported match. No downgrade, no skipped minor.
	// +optional
	Version string `json:"version,omitempty"`
	// verticalPodAutoscaler holds settings of the vertical pod autoscaler, which sizes pods. No effect here: there is
	// none. If it is enabled, its kinds are defined in the Shoot for objects of extensions, and nothing acts on them.
	// +optional
	VerticalPodAutoscaler *VerticalPodAutoscaler `json:"verticalPodAutoscaler,omitempty"`
	// etcd bounds the resources of the control plane's etcd. No effect here: nothing scales it.
	// +optional
	ETCD *ETCD `json:"etcd,omitempty"`
}

// ETCD holds settings of a control plane's etcd.
type ETCD struct {
	// main stores all objects but events.
	// +optional
	Main *ETCDConfig `json:"main,omitempty"`
	// events stores events.
	// +optional
	Events *ETCDConfig `json:"events,omitempty"`
}

// ETCDConfig holds settings of one etcd.
type ETCDConfig struct {
	// autoscaling bounds its vertical scaling. No effect here: nothing scales it.
	// +optional
	Autoscaling *ControlPlaneAutoscaling `json:"autoscaling,omitempty"`
}

// KubernetesConfig is what the settings of all components share.
type KubernetesConfig struct {
	// featureGates of the component, by name. Only gates that its version knows; those that are locked cannot be
	// changed.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// KubeAPIServerConfig holds settings of the API server.
type KubeAPIServerConfig struct {
	KubernetesConfig `json:",inline"`
	// admissionPlugins are switched on or off, or configured, by name. Those that the system needs cannot be switched
	// off.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	AdmissionPlugins []AdmissionPlugin `json:"admissionPlugins,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// apiAudiences are the audiences of service account tokens. Default kubernetes and gardener.
	// +optional
	APIAudiences []string `json:"apiAudiences,omitempty"`
	// auditConfig names the policy that selects which requests are logged, on the standard output of the API server.
	// Empty: who has changed something, got into a pod or read a secret; no contents.
	// +optional
	AuditConfig *AuditConfig `json:"auditConfig,omitempty"`
	// runtimeConfig switches API versions and resources, such as autoscaling/v1: false. Only those that the version
	// knows; those that the system needs cannot be switched off.
	// +optional
	RuntimeConfig map[string]bool `json:"runtimeConfig,omitempty"`
	// serviceAccountConfig sets issuer and lifetime of the tokens of service accounts.
	// +optional
	ServiceAccountConfig *ServiceAccountConfig `json:"serviceAccountConfig,omitempty"`
	// watchCacheSizes are the sizes of the caches from which clients watch. Empty: chosen by the API server.
	// +optional
	WatchCacheSizes *WatchCacheSizes `json:"watchCacheSizes,omitempty"`
	// requests bounds how many requests are served at the same time. Others wait, or get 429.
	// +optional
	Requests *APIServerRequests `json:"requests,omitempty"`
	// enableAnonymousAuthentication allows requests without credentials. Default false. Deprecated.
	// +optional
	EnableAnonymousAuthentication *bool `json:"enableAnonymousAuthentication,omitempty"`
	// eventTTL is how long events are kept, 0 to 24h. Default 1h.
	// +optional
	EventTTL *metav1.Duration `json:"eventTTL,omitempty"`
	// logging sets the verbosity of the API server's logs.
	// +optional
	Logging *APIServerLogging `json:"logging,omitempty"`
	// defaultNotReadyTolerationSeconds is how long pods stay on a node that is not ready, in seconds. Default 300.
	// +optional
	DefaultNotReadyTolerationSeconds *int64 `json:"defaultNotReadyTolerationSeconds,omitempty"`
	// defaultUnreachableTolerationSeconds is how long pods stay on an unreachable node, in seconds. Default 300.
	// +optional
	DefaultUnreachableTolerationSeconds *int64 `json:"defaultUnreachableTolerationSeconds,omitempty"`
	// encryptionConfig specifies which resources are encrypted in etcd. Secrets always are.
	// +optional
	EncryptionConfig *EncryptionConfig `json:"encryptionConfig,omitempty"`
	// structuredAuthentication names a ConfigMap with the issuers whose tokens are accepted, for example those of a
	// company's identity provider.
	// +optional
	StructuredAuthentication *StructuredAuthentication `json:"structuredAuthentication,omitempty"`
	// structuredAuthorization names a ConfigMap with webhooks that decide about requests before the modes Node and RBAC
	// do. Requests of system:masters, nodes, controllers of the control plane and service accounts of kube-system are
	// exempt.
	// +optional
	StructuredAuthorization *StructuredAuthorization `json:"structuredAuthorization,omitempty"`
	// autoscaling bounds the vertical scaling. No effect here: nothing scales the API server.
	// +optional
	Autoscaling *ControlPlaneAutoscaling `json:"autoscaling,omitempty"`
	// tlsMinVersion is VersionTLS12 or VersionTLS13. Empty: the API server's own default.
	// +optional
	TLSMinVersion *string `json:"tlsMinVersion,omitempty"`
}

// AdmissionPlugin is switched or configured.
type AdmissionPlugin struct {
	// name of the plugin, such as PodNodeSelector. Unique.
	Name string `json:"name"`
	// config of the plugin: a document of its own apiVersion and kind.
	// +optional
	Config *runtime.RawExtension `json:"config,omitempty"`
	// disabled switches the plugin off. Default false.
	// +optional
	Disabled *bool `json:"disabled,omitempty"`
	// kubeconfigSecretName names a Secret of the Shoot's namespace with the key kubeconfig, with which the plugin calls
	// others. spec.resources must refer to it. No effect here: plugins get no kubeconfigs.
	// +optional
	KubeconfigSecretName *string `json:"kubeconfigSecretName,omitempty"`
}

// AuditConfig holds the audit policy.
type AuditConfig struct {
	// auditPolicy names the ConfigMap with the policy.
	// +optional
	AuditPolicy *AuditPolicy `json:"auditPolicy,omitempty"`
}

// AuditPolicy refers to an audit policy.
type AuditPolicy struct {
	// configMapRef is a ConfigMap of the Shoot's namespace with an audit.k8s.io/v1 Policy in the key policy.
	// +optional
	ConfigMapRef *corev1.ObjectReference `json:"configMapRef,omitempty"`
}

// ServiceAccountConfig holds settings of service account tokens.
type ServiceAccountConfig struct {
	// issuer of tokens, an https URL. Default the API server's external address.
	// +optional
	Issuer *string `json:"issuer,omitempty"`
	// extendTokenExpiration extends the lifetime of projected tokens to a year. Empty: the API server's default.
	// +optional
	ExtendTokenExpiration *bool `json:"extendTokenExpiration,omitempty"`
	// maxTokenExpiration is the maximum lifetime of a token, 720h to 2160h. Empty: no additional limit.
	// +optional
	MaxTokenExpiration *metav1.Duration `json:"maxTokenExpiration,omitempty"`
	// acceptedIssuers are further issuers whose tokens are valid. Unique.
	// +optional
	AcceptedIssuers []string `json:"acceptedIssuers,omitempty"`
}

// WatchCacheSizes are the sizes of watch caches.
type WatchCacheSizes struct {
	// default size. Deprecated, no effect.
	// +optional
	Default *int32 `json:"default,omitempty"`
	// resources with a size of their own.
	// +optional
	Resources []ResourceWatchCacheSize `json:"resources,omitempty"`
}

// ResourceWatchCacheSize is the size of one resource's watch cache.
type ResourceWatchCacheSize struct {
	// apiGroup of the resource. Empty: the core group.
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`
	// resource in plural and lower case, such as configmaps.
	Resource string `json:"resource"`
	// size in objects; 0 switches the cache off.
	CacheSize int32 `json:"size"`
}

// APIServerRequests bounds the requests in flight.
type APIServerRequests struct {
	// maxNonMutatingInflight is the bound of reading requests, 0 to 5000. Default 400.
	// +optional
	MaxNonMutatingInflight *int32 `json:"maxNonMutatingInflight,omitempty"`
	// maxMutatingInflight is the bound of writing requests, 0 to 2500. Default 200.
	// +optional
	MaxMutatingInflight *int32 `json:"maxMutatingInflight,omitempty"`
}

// APIServerLogging holds the verbosity of the API server.
type APIServerLogging struct {
	// verbosity of the log, at least 0; 4 is for debugging. Default 2.
	// +optional
	Verbosity *int32 `json:"verbosity,omitempty"`
	// httpAccessVerbosity is the verbosity of the access log.
	// +optional
	HTTPAccessVerbosity *int32 `json:"httpAccessVerbosity,omitempty"`
}

// EncryptionConfig specifies which resources are encrypted in etcd.
type EncryptionConfig struct {
	// resources in addition to secrets, such as configmaps or shoots.core.gardener.cloud.
	// +optional
	Resources []string `json:"resources,omitempty"`
	// provider is the cipher. Default aescbc.
	// +optional
	Provider EncryptionProvider `json:"provider,omitempty"`
}

// EncryptionProvider is a cipher.
type EncryptionProvider struct {
	// type is aescbc, aesgcm (needs automatic key rotation) or secretbox. Default aescbc.
	// +optional
	Type *EncryptionProviderType `json:"type,omitempty"`
}

// EncryptionProviderType names a cipher.
type EncryptionProviderType string

const (
	EncryptionProviderTypeAESCBC    EncryptionProviderType = "aescbc"
	EncryptionProviderTypeAESGCM    EncryptionProviderType = "aesgcm"
	EncryptionProviderTypeSecretbox EncryptionProviderType = "secretbox"
)

// StructuredAuthentication names an AuthenticationConfiguration.
type StructuredAuthentication struct {
	// configMapName names a ConfigMap of the Shoot's namespace with an AuthenticationConfiguration in the key
	// config.yaml.
	ConfigMapName string `json:"configMapName"`
}

// StructuredAuthorization names an AuthorizationConfiguration.
type StructuredAuthorization struct {
	// configMapName names a ConfigMap of the Shoot's namespace with an AuthorizationConfiguration in the key
	// config.yaml, in which there are only webhooks.
	ConfigMapName string `json:"configMapName"`
	// kubeconfigs of the webhooks that the configuration names, one for each.
	Kubeconfigs []AuthorizerKubeconfigReference `json:"kubeconfigs"`
}

// AuthorizerKubeconfigReference is the kubeconfig of one authorizer webhook.
type AuthorizerKubeconfigReference struct {
	// authorizerName is the name of the authorizer in the configuration.
	AuthorizerName string `json:"authorizerName"`
	// secretName names a Secret of the Shoot's namespace with the key kubeconfig. The kubeconfig holds everything itself:
	// it names no files and no programs.
	SecretName string `json:"secretName"`
}

// KubeControllerManagerConfig holds settings of the controller manager.
type KubeControllerManagerConfig struct {
	KubernetesConfig `json:",inline"`
	// horizontalPodAutoscaler holds settings of that controller.
	// +optional
	HorizontalPodAutoscalerConfig *HorizontalPodAutoscalerConfig `json:"horizontalPodAutoscaler,omitempty"`
	// nodeCIDRMaskSize is the mask size of a node's share of the pod range: 16 to 28, IPv6 64 to 124.
	// Default: just enough for the largest maxPods, 24 for 110; IPv6 64. Immutable.
	// +optional
	NodeCIDRMaskSize *int32 `json:"nodeCIDRMaskSize,omitempty"`
	// podEvictionTimeout is how long pods stay on a failed node. Deprecated, no effect.
	// +optional
	PodEvictionTimeout *metav1.Duration `json:"podEvictionTimeout,omitempty"`
	// nodeMonitorGracePeriod is how long a node may be silent before it counts as not ready. Default 40s.
	// +optional
	NodeMonitorGracePeriod *metav1.Duration `json:"nodeMonitorGracePeriod,omitempty"`
	// nodeCIDRMaskSizeIPv6 is the mask size of a node's share of the IPv6 pod range. Default 64 with two
	// families. Immutable.
	// +optional
	NodeCIDRMaskSizeIPv6 *int32 `json:"nodeCIDRMaskSizeIPv6,omitempty"`
}

// HorizontalPodAutoscalerConfig holds settings of that controller. Empty fields leave its own defaults.
type HorizontalPodAutoscalerConfig struct {
	// cpuInitializationPeriod is how long CPU samples of a new pod may be skipped, at least 1s.
	// +optional
	CPUInitializationPeriod *metav1.Duration `json:"cpuInitializationPeriod,omitempty"`
	// downscaleStabilization is for how long recommendations to scale down are weighed, at least 1s.
	// +optional
	DownscaleStabilization *metav1.Duration `json:"downscaleStabilization,omitempty"`
	// initialReadinessDelay is how long readiness changes of a new pod count as initial.
	// +optional
	InitialReadinessDelay *metav1.Duration `json:"initialReadinessDelay,omitempty"`
	// syncPeriod is the time between evaluations, at least 1s.
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// tolerance is the minimum relative change that triggers scaling, over 0.
	// +optional
	Tolerance *float64 `json:"tolerance,omitempty"`
}

// KubeSchedulerConfig holds settings of the scheduler.
type KubeSchedulerConfig struct {
	KubernetesConfig `json:",inline"`
	// kubeMaxPDVols bounds the volumes of a node. Deprecated.
	// +optional
	KubeMaxPDVols *string `json:"kubeMaxPDVols,omitempty"`
	// profile is balanced, which spreads pods over nodes, or bin-packing, which fills nodes before it takes others.
	// Default balanced.
	// +optional
	Profile *SchedulingProfile `json:"profile,omitempty"`
}

// SchedulingProfile is a strategy to place pods.
type SchedulingProfile string

const (
	SchedulingProfileBalanced   SchedulingProfile = "balanced"
	SchedulingProfileBinPacking SchedulingProfile = "bin-packing"
)

// KubeProxyConfig holds settings of kube-proxy.
type KubeProxyConfig struct {
	KubernetesConfig `json:",inline"`
	// mode is IPTables, IPVS or NFTables. Default IPTables.
	// +optional
	Mode *ProxyMode `json:"mode,omitempty"`
	// enabled specifies whether kube-proxy runs. Default true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// ProxyMode is how kube-proxy works.
type ProxyMode string

const (
	ProxyModeIPTables ProxyMode = "IPTables"
	ProxyModeIPVS     ProxyMode = "IPVS"
	ProxyModeNFTables ProxyMode = "NFTables"
)

// KubeletConfig holds settings of kubelets. A pool's own block replaces that of the Shoot completely.
type KubeletConfig struct {
	KubernetesConfig `json:",inline"`
	// cpuCFSQuota enforces CPU limits. Empty: the kubelet's default, true.
	// +optional
	CPUCFSQuota *bool `json:"cpuCFSQuota,omitempty"`
	// cpuManagerPolicy is none, or static, which gives whole CPUs to pods of the QoS class Guaranteed that request them.
	// Empty: none.
	// +optional
	CPUManagerPolicy *string `json:"cpuManagerPolicy,omitempty"`
	// evictionHard are the thresholds below which pods are evicted at once.
	// Empty fields: memoryAvailable 100Mi, the others 5%.
	// +optional
	EvictionHard *KubeletConfigEviction `json:"evictionHard,omitempty"`
	// evictionMaxPodGracePeriod is the longest grace of a soft eviction, in seconds. Empty: 90.
	// +optional
	EvictionMaxPodGracePeriod *int32 `json:"evictionMaxPodGracePeriod,omitempty"`
	// evictionMinimumReclaim is how much an eviction frees at least. Empty fields: 0.
	// +optional
	EvictionMinimumReclaim *KubeletConfigEvictionMinimumReclaim `json:"evictionMinimumReclaim,omitempty"`
	// evictionPressureTransitionPeriod is the wait before a node leaves a pressure condition. Empty: 4m.
	// +optional
	EvictionPressureTransitionPeriod *metav1.Duration `json:"evictionPressureTransitionPeriod,omitempty"`
	// evictionSoft are the thresholds below which pods are evicted after a grace period.
	// Empty fields: memoryAvailable 200Mi, the others 10%.
	// +optional
	EvictionSoft *KubeletConfigEviction `json:"evictionSoft,omitempty"`
	// evictionSoftGracePeriod are the grace periods. Empty fields: 90s.
	// +optional
	EvictionSoftGracePeriod *KubeletConfigEvictionSoftGracePeriod `json:"evictionSoftGracePeriod,omitempty"`
	// maxPods bounds the pods of a node; nodeCIDRMaskSize must leave an address for each. Empty: 110.
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`
	// podPidsLimit bounds the processes of a pod, at least 100. Empty: no limit.
	// +optional
	PodPIDsLimit *int64 `json:"podPidsLimit,omitempty"`
	// failSwapOn keeps the kubelet from starting while swap is on. Default true.
	// +optional
	FailSwapOn *bool `json:"failSwapOn,omitempty"`
	// kubeReserved is kept from pods for kubelet and container runtime; less than the machine has. Default cpu 80m,
	// memory 1Gi, pid 20k.
	// +optional
	KubeReserved *KubeletConfigReserved `json:"kubeReserved,omitempty"`
	// systemReserved is kept from pods for what else runs on the machine; with kubeReserved less than the machine has.
	// Machines are replaced only when the sum of both changes. Deprecated, use kubeReserved. Default none.
	// +optional
	SystemReserved *KubeletConfigReserved `json:"systemReserved,omitempty"`
	// imageGCHighThresholdPercent is the disk use in percent from which images are removed. Default 50.
	// +optional
	ImageGCHighThresholdPercent *int32 `json:"imageGCHighThresholdPercent,omitempty"`
	// imageGCLowThresholdPercent is the disk use in percent down to which images are removed. Default 40.
	// +optional
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`
	// serializeImagePulls pulls one image at a time. Default true, false with maxParallelImagePulls over 1.
	// +optional
	SerializeImagePulls *bool `json:"serializeImagePulls,omitempty"`
	// registryPullQPS bounds image pulls per second; 0 is no bound. Empty: the kubelet's default.
	// +optional
	RegistryPullQPS *int32 `json:"registryPullQPS,omitempty"`
	// registryBurst bounds image pulls at once. Empty: the kubelet's default.
	// +optional
	RegistryBurst *int32 `json:"registryBurst,omitempty"`
	// seccompDefault uses the runtime's seccomp profile for all workload. Empty: false.
	// +optional
	SeccompDefault *bool `json:"seccompDefault,omitempty"`
	// containerLogMaxSize is the size in bytes at which a log is rotated. Empty: the kubelet's default.
	// +optional
	ContainerLogMaxSize *resource.Quantity `json:"containerLogMaxSize,omitempty"`
	// containerLogMaxFiles bounds a container's log files, at least 2. Empty: the kubelet's default.
	// +optional
	ContainerLogMaxFiles *int32 `json:"containerLogMaxFiles,omitempty"`
	// protectKernelDefaults refuses to start with unexpected kernel settings. Empty: true.
	// +optional
	ProtectKernelDefaults *bool `json:"protectKernelDefaults,omitempty"`
	// streamingConnectionIdleTimeout closes idle streams, 30s to 4h. Empty: 5m.
	// +optional
	StreamingConnectionIdleTimeout *metav1.Duration `json:"streamingConnectionIdleTimeout,omitempty"`
	// memorySwap specifies which pods may swap. Needs the feature gate NodeSwap and failSwapOn false.
	// +optional
	MemorySwap *MemorySwapConfiguration `json:"memorySwap,omitempty"`
	// maxParallelImagePulls bounds pulls at the same time, at least 1. Empty: no bound, if not serialized.
	// +optional
	MaxParallelImagePulls *int32 `json:"maxParallelImagePulls,omitempty"`
	// imageMinimumGCAge is how long an unused image is kept at least. Default 2m.
	// +optional
	ImageMinimumGCAge *metav1.Duration `json:"imageMinimumGCAge,omitempty"`
	// imageMaximumGCAge is how long an unused image is kept at most; 0s is for ever. Default 0s.
	// +optional
	ImageMaximumGCAge *metav1.Duration `json:"imageMaximumGCAge,omitempty"`
	// singleProcessOOMKill kills single processes instead of all of a container. Empty: the kubelet's default.
	// +optional
	SingleProcessOOMKill *bool `json:"singleProcessOOMKill,omitempty"`
	// imagePullCredentialsVerificationPolicy is NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages
	// or AlwaysVerify. Empty: the kubelet's default.
	// +optional
	ImagePullCredentialsVerificationPolicy *string `json:"imagePullCredentialsVerificationPolicy,omitempty"`
	// preloadedImagesVerificationAllowlist are images used without credentials under NeverVerifyAllowlistedImages.
	// +optional
	PreloadedImagesVerificationAllowlist []string `json:"preloadedImagesVerificationAllowlist,omitempty"`
}

// KubeletConfigEviction are eviction thresholds, each a quantity or a percentage.
type KubeletConfigEviction struct {
	// memoryAvailable is the threshold of free memory, such as 100Mi or 5%.
	// +optional
	MemoryAvailable *string `json:"memoryAvailable,omitempty"`
	// imageFSAvailable is the threshold of free space for images.
	// +optional
	ImageFSAvailable *string `json:"imageFSAvailable,omitempty"`
	// imageFSInodesFree is the threshold of free inodes for images.
	// +optional
	ImageFSInodesFree *string `json:"imageFSInodesFree,omitempty"`
	// nodeFSAvailable is the threshold of free space on the node's file system.
	// +optional
	NodeFSAvailable *string `json:"nodeFSAvailable,omitempty"`
	// nodeFSInodesFree is the threshold of free inodes on the node's file system.
	// +optional
	NodeFSInodesFree *string `json:"nodeFSInodesFree,omitempty"`
}

// KubeletConfigEvictionMinimumReclaim is how much an eviction frees at least.
type KubeletConfigEvictionMinimumReclaim struct {
	// memoryAvailable is the reclaimed memory in bytes.
	// +optional
	MemoryAvailable *resource.Quantity `json:"memoryAvailable,omitempty"`
	// imageFSAvailable is the reclaimed space for images in bytes.
	// +optional
	ImageFSAvailable *resource.Quantity `json:"imageFSAvailable,omitempty"`
	// imageFSInodesFree is the reclaimed number of inodes for images.
	// +optional
	ImageFSInodesFree *resource.Quantity `json:"imageFSInodesFree,omitempty"`
	// nodeFSAvailable is the reclaimed space on the node's file system in bytes.
	// +optional
	NodeFSAvailable *resource.Quantity `json:"nodeFSAvailable,omitempty"`
	// nodeFSInodesFree is the reclaimed number of inodes on the node's file system.
	// +optional
	NodeFSInodesFree *resource.Quantity `json:"nodeFSInodesFree,omitempty"`
}

// KubeletConfigEvictionSoftGracePeriod are the grace periods of soft evictions.
type KubeletConfigEvictionSoftGracePeriod struct {
	// memoryAvailable is how long free memory may be below its threshold. Empty: 1m30s.
	// +optional
	MemoryAvailable *metav1.Duration `json:"memoryAvailable,omitempty"`
	// imageFSAvailable is how long free space for images may be below its threshold. Empty: 1m30s.
	// +optional
	ImageFSAvailable *metav1.Duration `json:"imageFSAvailable,omitempty"`
	// imageFSInodesFree is how long free inodes for images may be below their threshold. Empty: 1m30s.
	// +optional
	ImageFSInodesFree *metav1.Duration `json:"imageFSInodesFree,omitempty"`
	// nodeFSAvailable is how long free space on the node's file system may be below its threshold. Empty: 1m30s.
	// +optional
	NodeFSAvailable *metav1.Duration `json:"nodeFSAvailable,omitempty"`
	// nodeFSInodesFree is how long free inodes on the node's file system may be below their threshold. Empty: 1m30s.
	// +optional
	NodeFSInodesFree *metav1.Duration `json:"nodeFSInodesFree,omitempty"`
}

// KubeletConfigReserved is kept for daemons.
type KubeletConfigReserved struct {
	// cpu is the reserved CPU. Admission sets 80m when empty.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// memory is the reserved memory in bytes. Admission sets 1Gi when empty.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// ephemeralStorage is the reserved disk space in bytes. Empty: none.
	// +optional
	EphemeralStorage *resource.Quantity `json:"ephemeralStorage,omitempty"`
	// pid is the reserved number of process IDs. Admission sets 20k when empty.
	// +optional
	PID *resource.Quantity `json:"pid,omitempty"`
}

// SwapBehavior specifies which pods may swap.
type SwapBehavior string

const (
	NoSwap      SwapBehavior = "NoSwap"
	LimitedSwap SwapBehavior = "LimitedSwap"
)

// MemorySwapConfiguration specifies which pods may swap.
type MemorySwapConfiguration struct {
	// swapBehavior is NoSwap or LimitedSwap. Default LimitedSwap when the gate NodeSwap is on and failSwapOn is false.
	// +optional
	SwapBehavior *SwapBehavior `json:"swapBehavior,omitempty"`
}
