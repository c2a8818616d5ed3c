package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// GroupVersion and Kind of the file.
const (
	GroupVersion = "gardenlet.config.gardener.cloud/v1alpha1"
	Kind         = "GardenletConfiguration"
)

// NewWorkerPoolHash is a feature gate.
const NewWorkerPoolHash = "NewWorkerPoolHash"

// featureGates are all gates with their defaults.
var featureGates = map[string]bool{NewWorkerPoolHash: true}

// GardenletConfiguration is the content of the file.
type GardenletConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// gardenClientConnection says how to reach the garden. Required.
	GardenClientConnection GardenClientConnection `json:"gardenClientConnection"`
	// seedClientConnection says how to reach the seed. Empty: the cluster that the gardenlet runs in.
	SeedClientConnection *ClientConnection `json:"seedClientConnection,omitempty"`
	// controllers has settings of the single controllers.
	Controllers *Controllers `json:"controllers,omitempty"`
	// leaderElection lets one of several replicas act. Default on.
	LeaderElection *LeaderElection `json:"leaderElection,omitempty"`
	// resources bound what the Seed takes.
	Resources *Resources `json:"resources,omitempty"`
	// logLevel is error, info or debug. Default info.
	LogLevel string `json:"logLevel,omitempty"`
	// server has the addresses of the health and metrics endpoints.
	Server *Server `json:"server,omitempty"`
	// seedConfig is the Seed that this gardenlet registers and keeps. Required.
	SeedConfig *SeedConfig `json:"seedConfig,omitempty"`
	// featureGates switch features on or off, by name. NewWorkerPoolHash, on by default: worker pools that are new, or
	// rolled anyway, get the hash that counts fewer changes of their providerConfig and more of their kubelets. Others
	// keep theirs.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// images override where images come from, by name: hortus, etcd, coredns, pause, kube-apiserver, ... The tag is kept.
	Images map[string]string `json:"images,omitempty"`
}

// SeedConfig is the template of a Seed.
type SeedConfig struct {
	corev1beta1.SeedTemplate `json:",inline"`
}

// GardenClientConnection says how to reach the garden, and how the certificate for it is renewed.
type GardenClientConnection struct {
	ClientConnection `json:",inline"`
	// kubeconfigSecret is the Secret in the seed where a renewed certificate is stored, as a kubeconfig under the key
	// kubeconfig. The gardenlet makes it. Without the field kubeconfig it has to exist, and is all there is. With both,
	// the file says where the garden is, and the certificate is used that was issued last. Empty: the file is rewritten if
	// that is possible.
	KubeconfigSecret *SecretReference `json:"kubeconfigSecret,omitempty"`
	// bootstrapKubeconfig is the Secret in the seed with a kubeconfig, under the key kubeconfig, whose token lets the
	// gardenlet request its first certificate. It is used while the Secret of kubeconfigSecret does not exist, and needs
	// that field; the field kubeconfig has to be empty.
	BootstrapKubeconfig *SecretReference `json:"bootstrapKubeconfig,omitempty"`
	// kubeconfigValidity says how long certificates are valid and when they are renewed.
	KubeconfigValidity *KubeconfigValidity `json:"kubeconfigValidity,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// KubeconfigValidity says how long certificates are valid and when they are renewed.
type KubeconfigValidity struct {
	// validity is the life to ask for. At least 10m. Empty: the garden's signer decides, which also bounds it.
	Validity *metav1.Duration `json:"validity,omitempty"`
	// autoRotationJitterPercentageMin and autoRotationJitterPercentageMax are the part of the life, in percent, in which a
	// certificate is renewed, at a time left to chance. 1 to 99, the second not below the first. Default 80 and 90: of a
	// certificate for a year, more than a month is left to repair what may be wrong.
	AutoRotationJitterPercentageMin *int32 `json:"autoRotationJitterPercentageMin,omitempty"`
	AutoRotationJitterPercentageMax *int32 `json:"autoRotationJitterPercentageMax,omitempty"`
}

// ClientConnection says how to reach an API server.
type ClientConnection struct {
	// kubeconfig is the path of the file. Empty: in-cluster.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// qps and burst bound requests per second. Default 100 and 130.
	QPS   float32 `json:"qps,omitempty"`
	Burst int     `json:"burst,omitempty"`
}

// Controllers has settings of the single controllers.
type Controllers struct {
	Shoot                  *ShootController                  `json:"shoot,omitempty"`
	ShootCare              *ShootCareController              `json:"shootCare,omitempty"`
	ControllerInstallation *ControllerInstallationController `json:"controllerInstallation,omitempty"`
	Seed                   *SeedController                   `json:"seed,omitempty"`
	BackupBucket           *BackupBucketController           `json:"backupBucket,omitempty"`
	BackupEntry            *BackupEntryController            `json:"backupEntry,omitempty"`
	ShootState             *ShootStateController             `json:"shootState,omitempty"`
}

// ShootController reconciles Shoots.
type ShootController struct {
	// concurrentSyncs is how many Shoots are worked on at once. Default 20.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// syncPeriod is how often a Shoot that succeeded is reconciled again. Default 1h.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// respectSyncPeriodOverwrite honours the annotation shoot.gardener.cloud/sync-period. Default false.
	RespectSyncPeriodOverwrite *bool `json:"respectSyncPeriodOverwrite,omitempty"`
	// reconcileInMaintenanceOnly delays the periodic reconciliation to the Shoot's maintenance window. Default false.
	ReconcileInMaintenanceOnly *bool `json:"reconcileInMaintenanceOnly,omitempty"`
	// retryDuration is how long a failing operation is retried before it counts as failed. Default 12h.
	RetryDuration *metav1.Duration `json:"retryDuration,omitempty"`
	// fenceTime is how long an etcd runs although neither the garden nor the bucket of its backups confirms that this seed
	// owns it, and so how long a seed waits that takes over control planes of this one when it is gone. Default 5m, at
	// least 30s. Our own addition.
	FenceTime *metav1.Duration `json:"fenceTime,omitempty"`
	// dnsEntryTTLSeconds is the time to live of DNS records. Default 120.
	DNSEntryTTLSeconds *int64 `json:"dnsEntryTTLSeconds,omitempty"`
}

// ShootCareController checks the health of Shoots.
type ShootCareController struct {
	// concurrentSyncs is how many Shoots are checked at once. Default 20.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// syncPeriod is how often each Shoot is checked, and the time limit of one check. Default 1m.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// staleExtensionHealthChecks turns conditions of silent extensions into Unknown.
	StaleExtensionHealthChecks *StaleExtensionHealthChecks `json:"staleExtensionHealthChecks,omitempty"`
	// conditionThresholds give failing conditions time to recover.
	ConditionThresholds []ConditionThreshold `json:"conditionThresholds,omitempty"`
	// webhookRemediatorEnabled repairs problematic webhooks of users; those that are changed back, less and less often.
	// Default false.
	WebhookRemediatorEnabled *bool `json:"webhookRemediatorEnabled,omitempty"`
}

// StaleExtensionHealthChecks is when a report counts as outdated.
type StaleExtensionHealthChecks struct {
	// enabled switches the check. Default true.
	Enabled *bool `json:"enabled,omitempty"`
	// threshold is the age of the extension's heartbeat. Default 5m.
	Threshold *metav1.Duration `json:"threshold,omitempty"`
}

// ConditionThreshold is how long a condition stays Progressing before it turns False.
type ConditionThreshold struct {
	Type     string          `json:"type"`
	Duration metav1.Duration `json:"duration"`
}

// ControllerInstallationController installs extensions.
type ControllerInstallationController struct {
	// concurrentSyncs is how many installations are worked on at once. Default 5.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// SeedController keeps the Seed and its Lease.
type SeedController struct {
	// syncPeriod is how often the Seed is reconciled. Default 1h.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// leaseResyncSeconds is how often the Lease is renewed. Default 2.
	LeaseResyncSeconds *int32 `json:"leaseResyncSeconds,omitempty"`
}

// BackupBucketController makes the bucket of the seed.
type BackupBucketController struct {
	// concurrentSyncs is how many buckets are worked on at once. Default 20.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// syncPeriod is how often the credentials in the garden are compared with those in use: gardenlets may not watch
	// Secrets of the garden. At least 10s. Default 1m.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// BackupEntryController keeps the places of Shoots in buckets.
type BackupEntryController struct {
	// concurrentSyncs is how many entries are worked on at once. Default 20.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// deletionGracePeriodHours is how long the backups are kept after the deletion of the Shoot, in hours. Range 0-87600
	// (ten years). Default 0: they are deleted with it.
	DeletionGracePeriodHours *int `json:"deletionGracePeriodHours,omitempty"`
	// deletionGracePeriodShootPurposes limits the grace period to the backups of Shoots with one of the purposes
	// evaluation, testing, development, production and infrastructure. Empty: it holds for all.
	DeletionGracePeriodShootPurposes []corev1beta1.ShootPurpose `json:"deletionGracePeriodShootPurposes,omitempty"`
}

// ShootStateController keeps the ShootStates current.
type ShootStateController struct {
	// concurrentSyncs is how many ShootStates are worked on at once; each may take up to 20 MiB of memory. Default 5.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// syncPeriod is how often a ShootState is compared with the seed although nothing is known to have changed. Changes
	// are written at once. At least 1m. Default 6h.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// LeaderElection lets one of several replicas act.
type LeaderElection struct {
	// leaderElect switches it. Default true.
	LeaderElect *bool `json:"leaderElect,omitempty"`
	// resourceName and resourceNamespace of the Lease. Default gardenlet-leader-election in namespace garden.
	ResourceName      string `json:"resourceName,omitempty"`
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
}

// Resources bound what the Seed takes.
type Resources struct {
	// capacity is the total, by resource; only shoots counts.
	Capacity map[string]string `json:"capacity,omitempty"`
	// reserved is kept free of it.
	Reserved map[string]string `json:"reserved,omitempty"`
}

// Server has the addresses of the endpoints.
type Server struct {
	// healthProbes serves /healthz and /readyz. Default port 2728.
	HealthProbes *Endpoint `json:"healthProbes,omitempty"`
	// metrics serves /metrics, without asking for credentials. Default 127.0.0.1, port 2729: inside the pod.
	Metrics *Endpoint `json:"metrics,omitempty"`
}

// Endpoint is an address to listen on.
type Endpoint struct {
	// bindAddress is an IP. Empty means all of the pod, but for metrics.
	BindAddress string `json:"bindAddress,omitempty"`
	Port        int    `json:"port,omitempty"`
}
