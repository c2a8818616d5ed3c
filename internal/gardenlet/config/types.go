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
	// gardenClientConnection is the connection to the garden. Required.
	GardenClientConnection GardenClientConnection `json:"gardenClientConnection"`
	// seedClientConnection is the connection to the seed. Default: the cluster in which the gardenlet runs.
	SeedClientConnection *ClientConnection `json:"seedClientConnection,omitempty"`
	// controllers has the settings of each controller.
	Controllers *Controllers `json:"controllers,omitempty"`
	// leaderElection makes only one of several replicas act. Default on.
	LeaderElection *LeaderElection `json:"leaderElection,omitempty"`
	// resources limit what the Seed accepts.
	Resources *Resources `json:"resources,omitempty"`
	// logLevel is error, info or debug. Default info.
	LogLevel string `json:"logLevel,omitempty"`
	// server has the addresses of the endpoints for health and metrics.
	Server *Server `json:"server,omitempty"`
	// seedConfig is the Seed that this gardenlet registers and maintains. Required.
	SeedConfig *SeedConfig `json:"seedConfig,omitempty"`
	// featureGates switch features on or off, by name. NewWorkerPoolHash, on by default, gives worker pools that are new,
	// or that are rolled anyway, the version of the hash that depends on fewer changes of their providerConfig and more of
	// their kubelets. Other pools keep theirs.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// images are repositories from which images are pulled instead of the public ones, by name: coredns, hortus,
	// kube-apiserver, kube-controller-manager, kube-proxy, kube-scheduler, kubelet, pause. Tags and digests are kept. Not
	// part of Gardener.
	Images map[string]string `json:"images,omitempty"`
}

// SeedConfig is the template of a Seed.
type SeedConfig struct {
	corev1beta1.SeedTemplate `json:",inline"`
}

// GardenClientConnection is the connection to the garden, with the renewal of its certificate.
type GardenClientConnection struct {
	ClientConnection `json:",inline"`
	// kubeconfigSecret is the Secret in the seed in which renewed certificates are stored, as a kubeconfig under the key
	// kubeconfig. If the field kubeconfig is set, the gardenlet creates the Secret; the address of the garden is the one
	// in the file, and the certificate is the one that was issued last. If the field kubeconfig is empty, only the Secret
	// is used: it must exist, unless bootstrapKubeconfig is set. Empty: the file is rewritten, if possible.
	KubeconfigSecret *SecretReference `json:"kubeconfigSecret,omitempty"`
	// bootstrapKubeconfig is the Secret in the seed with a kubeconfig, under the key kubeconfig, whose token allows the
	// gardenlet to request its first certificate. It is used while the Secret of kubeconfigSecret does not exist, requires
	// that field, and cannot be set together with the field kubeconfig.
	BootstrapKubeconfig *SecretReference `json:"bootstrapKubeconfig,omitempty"`
	// kubeconfigValidity is the lifetime of certificates and the time of their renewal.
	KubeconfigValidity *KubeconfigValidity `json:"kubeconfigValidity,omitempty"`
	// gardenClusterAddress and gardenClusterCACert are the URL of the garden and the CA bundle of its certificate, in PEM,
	// for the gardenlets that are installed for ManagedSeeds, and in a Gardenlet for its first installation. Default:
	// those of this gardenlet's kubeconfig.
	GardenClusterAddress string `json:"gardenClusterAddress,omitempty"`
	GardenClusterCACert  []byte `json:"gardenClusterCACert,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// KubeconfigValidity is the lifetime of certificates and the time of their renewal.
type KubeconfigValidity struct {
	// validity is the lifetime to request, at least 10m. Empty: the garden's signer decides; it also limits the lifetime.
	Validity *metav1.Duration `json:"validity,omitempty"`
	// autoRotationJitterPercentageMin and autoRotationJitterPercentageMax are the part of the lifetime, in percent, in
	// which a certificate is renewed, at a random time. Range 1-99; the second is not below the first. Default 80 and 90:
	// with a certificate for one year, that leaves more than a month to repair a failing renewal.
	AutoRotationJitterPercentageMin *int32 `json:"autoRotationJitterPercentageMin,omitempty"`
	AutoRotationJitterPercentageMax *int32 `json:"autoRotationJitterPercentageMax,omitempty"`
}

// ClientConnection is the connection to an API server.
type ClientConnection struct {
	// kubeconfig is the path of the file. Empty: the in-cluster configuration.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// qps and burst limit the requests per second. Default 100 and 130.
	QPS   float32 `json:"qps,omitempty"`
	Burst int     `json:"burst,omitempty"`
}

// Controllers has the settings of each controller.
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
	// concurrentSyncs is the number of Shoots reconciled concurrently. Default 20, at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// syncPeriod is the time after which a Shoot that succeeded is reconciled again. Default 1h, at least 1m.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// respectSyncPeriodOverwrite honours the annotation shoot.gardener.cloud/sync-period. Default false.
	RespectSyncPeriodOverwrite *bool `json:"respectSyncPeriodOverwrite,omitempty"`
	// reconcileInMaintenanceOnly delays periodic reconciliations to the Shoot's maintenance time window. Default false.
	ReconcileInMaintenanceOnly *bool `json:"reconcileInMaintenanceOnly,omitempty"`
	// retryDuration is how long an operation with errors is retried before its state becomes Failed. Default 12h, at least
	// 1m.
	RetryDuration *metav1.Duration `json:"retryDuration,omitempty"`
	// fenceTime is how long an etcd keeps running when neither the garden nor the bucket of its backups confirms that this
	// seed owns it. A seed that takes over the control planes of this seed after its loss waits for the same time. Default
	// 5m, at least 30s and twice controllers.shootCare.syncPeriod. Not part of Gardener.
	FenceTime *metav1.Duration `json:"fenceTime,omitempty"`
	// dnsEntryTTLSeconds is the time to live of DNS records. Default 120.
	DNSEntryTTLSeconds *int64 `json:"dnsEntryTTLSeconds,omitempty"`
}

// ShootCareController checks the health of Shoots.
type ShootCareController struct {
	// concurrentSyncs is the number of Shoots checked concurrently. Default 20, at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// syncPeriod is the time between two checks of a Shoot, and the timeout of one check. Default 1m.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// staleExtensionHealthChecks sets conditions of extensions without a recent heartbeat to Unknown.
	StaleExtensionHealthChecks *StaleExtensionHealthChecks `json:"staleExtensionHealthChecks,omitempty"`
	// conditionThresholds give failing conditions time to recover.
	ConditionThresholds []ConditionThreshold `json:"conditionThresholds,omitempty"`
	// webhookRemediatorEnabled repairs problematic webhooks of users. Webhooks that are changed back are repaired again,
	// at growing intervals. Default false.
	WebhookRemediatorEnabled *bool `json:"webhookRemediatorEnabled,omitempty"`
}

// StaleExtensionHealthChecks says when the report of an extension is outdated.
type StaleExtensionHealthChecks struct {
	// enabled switches the check. Default true.
	Enabled *bool `json:"enabled,omitempty"`
	// threshold is the age from which a heartbeat of an extension is too old. Default 5m.
	Threshold *metav1.Duration `json:"threshold,omitempty"`
}

// ConditionThreshold is how long a failing condition is Progressing before it becomes False.
type ConditionThreshold struct {
	Type     string          `json:"type"`
	Duration metav1.Duration `json:"duration"`
}

// ControllerInstallationController installs extensions.
type ControllerInstallationController struct {
	// concurrentSyncs is the number of installations reconciled concurrently. Default 5, at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// SeedController maintains the Seed and its Lease.
type SeedController struct {
	// syncPeriod is the time after which the Seed is reconciled again. Default 1h.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// leaseResyncSeconds is the time between two renewals of the Lease, in seconds. Default 2, at least 1.
	LeaseResyncSeconds *int32 `json:"leaseResyncSeconds,omitempty"`
}

// BackupBucketController creates the bucket of the seed.
type BackupBucketController struct {
	// concurrentSyncs is the number of buckets reconciled concurrently. Default 20, at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// syncPeriod is the time between two comparisons of the credentials in the garden with those in use: gardenlets may
	// not watch Secrets of the garden. Default 1m, at least 10s.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// BackupEntryController manages the places of Shoots in buckets.
type BackupEntryController struct {
	// concurrentSyncs is the number of entries reconciled concurrently. Default 20, at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// deletionGracePeriodHours is how long the backups are kept after the deletion of the Shoot, in hours. Range 0-87600
	// (ten years). Default 0: they are deleted with the Shoot.
	DeletionGracePeriodHours *int `json:"deletionGracePeriodHours,omitempty"`
	// deletionGracePeriodShootPurposes limits the grace period to Shoots with one of these purposes: evaluation, testing,
	// development, production, infrastructure. Empty: it applies to all.
	DeletionGracePeriodShootPurposes []corev1beta1.ShootPurpose `json:"deletionGracePeriodShootPurposes,omitempty"`
}

// ShootStateController keeps the ShootStates current.
type ShootStateController struct {
	// concurrentSyncs is the number of ShootStates handled concurrently; each may take up to 20 MiB of memory. Default 5,
	// at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// syncPeriod is the time after which a ShootState is compared with the seed even without a known change. Changes are
	// written at once. Default 6h, at least 1m.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// LeaderElection makes only one of several replicas act.
type LeaderElection struct {
	// leaderElect switches it on or off. Default true.
	LeaderElect *bool `json:"leaderElect,omitempty"`
	// resourceName and resourceNamespace of the Lease. Default gardenlet-leader-election in namespace garden.
	ResourceName      string `json:"resourceName,omitempty"`
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
}

// Resources limit what the Seed accepts.
type Resources struct {
	// capacity is the total, by resource name; only shoots is considered.
	Capacity map[string]string `json:"capacity,omitempty"`
	// reserved is the part of the capacity that is kept free.
	Reserved map[string]string `json:"reserved,omitempty"`
}

// Server has the addresses of the endpoints.
type Server struct {
	// healthProbes serves /healthz and /readyz. Default port 2728.
	HealthProbes *Endpoint `json:"healthProbes,omitempty"`
	// metrics serves /metrics: on a loopback address without authentication, elsewhere with TLS and only to those whose
	// token may get that path in the seed. Default 127.0.0.1:2729, reachable only within the pod.
	Metrics *Endpoint `json:"metrics,omitempty"`
}

// Endpoint is an address to listen on.
type Endpoint struct {
	// bindAddress is an IP address. Empty: all addresses of the pod; for metrics, 127.0.0.1.
	BindAddress string `json:"bindAddress,omitempty"`
	Port        int    `json:"port,omitempty"`
}
