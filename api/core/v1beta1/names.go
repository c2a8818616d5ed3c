package v1beta1

// Annotations about operations and confirmations.
const (
	// AnnotationOperation requests an operation: on a Shoot a list of Operation values separated by ";".
	AnnotationOperation = "gardener.cloud/operation"
	// AnnotationMaintenanceOperation lists operations of a Shoot to start in the next maintenance.
	AnnotationMaintenanceOperation = "maintenance.gardener.cloud/operation"
	// AnnotationTimestamp is the RFC 3339 time of the last trigger or write; it makes an identical update visible.
	AnnotationTimestamp = "gardener.cloud/timestamp"
	// AnnotationConfirmationDeletion must be true before a Shoot, Project or ShootState may be deleted.
	AnnotationConfirmationDeletion = "confirmation.gardener.cloud/deletion"
	// AnnotationConfirmationForceDeletion lets a Shoot be deleted without cleaning its infrastructure.
	AnnotationConfirmationForceDeletion = "confirmation.gardener.cloud/force-deletion"
	// AnnotationDeletionConfirmedBy is the user who confirmed the deletion. Set by the API server.
	AnnotationDeletionConfirmedBy = "deletion.gardener.cloud/confirmed-by"
	// AnnotationBackupEntryForceDeletion skips the grace period of a BackupEntry.
	AnnotationBackupEntryForceDeletion = "backupentry.core.gardener.cloud/force-deletion"
	// AnnotationShootTasks lists tasks for the next reconciliation, separated by commas.
	AnnotationShootTasks = "shoot.gardener.cloud/tasks"
	// AnnotationNeedsRetryOperation makes the next maintenance retry a failed Shoot.
	AnnotationNeedsRetryOperation = "maintenance.shoot.gardener.cloud/needs-retry-operation"
	// AnnotationLiveMigrate requests a migration without an outage.
	AnnotationLiveMigrate = "migration.gardener.cloud/live-migrate"
	// AnnotationAllowDistantRegions permits a live migration between distant regions.
	AnnotationAllowDistantRegions = "migration.gardener.cloud/allow-distant-regions"
)

// Annotations that change how a Shoot is treated.
const (
	// AnnotationCreatedBy is the user who created the object. Set by the API server.
	AnnotationCreatedBy = "gardener.cloud/created-by"
	// AnnotationShootIgnore keeps the gardenlet from reconciling a Shoot.
	AnnotationShootIgnore = "shoot.gardener.cloud/ignore"
	// AnnotationShootSyncPeriod overrides the time between reconciliations.
	AnnotationShootSyncPeriod = "shoot.gardener.cloud/sync-period"
	// AnnotationShootExpirationTimestamp is when a Shoot is deleted, in RFC 3339.
	AnnotationShootExpirationTimestamp = "shoot.gardener.cloud/expiration-timestamp"
	// AnnotationShootSkipCleanup limits the cleanup before deletion to Services and PersistentVolumeClaims.
	AnnotationShootSkipCleanup = "shoot.gardener.cloud/skip-cleanup"
	// AnnotationShootCleanupWebhooksFinalizeGracePeriodSeconds overrides the grace of cleanup step 1 (300).
	AnnotationShootCleanupWebhooksFinalizeGracePeriodSeconds = "shoot.gardener.cloud/cleanup-webhooks-finalize-grace-period-seconds"
	// AnnotationShootCleanupExtendedAPIsFinalizeGracePeriodSeconds overrides the grace of cleanup step 2 (3600).
	AnnotationShootCleanupExtendedAPIsFinalizeGracePeriodSeconds = "shoot.gardener.cloud/cleanup-extended-apis-finalize-grace-period-seconds"
	// AnnotationShootCleanupKubernetesResourcesFinalizeGracePeriodSeconds overrides the grace of cleanup step 3 (300).
	AnnotationShootCleanupKubernetesResourcesFinalizeGracePeriodSeconds = "shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds"
	// AnnotationShootCleanupKubernetesResourcesStartTime is when cleanup step 3 began.
	AnnotationShootCleanupKubernetesResourcesStartTime = "shoot.gardener.cloud/cleanup-kubernetes-resources-start-time"
	// AnnotationShootSkipReadiness ends a reconciliation without waiting for components to be ready.
	AnnotationShootSkipReadiness = "shoot.gardener.cloud/skip-readiness"
	// AnnotationShootIgnoreAlerts switches alerts off.
	AnnotationShootIgnoreAlerts = "shoot.gardener.cloud/ignore-alerts"
	// AnnotationShootCloudConfigExecutionMaxDelaySeconds bounds the random delay of node configuration (300); 0 for none.
	AnnotationShootCloudConfigExecutionMaxDelaySeconds = "shoot.gardener.cloud/cloud-config-execution-max-delay-seconds"
	// AnnotationShootDisableIstioTLSTermination keeps TLS unterminated at the gateway.
	AnnotationShootDisableIstioTLSTermination = "shoot.gardener.cloud/disable-istio-tls-termination"
	// AnnotationControlPlaneScaleDownDisabled keeps the control plane from being scaled down.
	AnnotationControlPlaneScaleDownDisabled = "alpha.control-plane.scaling.shoot.gardener.cloud/scale-down-disabled"
	// AnnotationControlPlaneHAVPN switches the highly available tunnel.
	AnnotationControlPlaneHAVPN = "alpha.control-plane.shoot.gardener.cloud/high-availability-vpn"
	// AnnotationAuthenticationIssuer with the value managed moves the service account issuer to the garden.
	AnnotationAuthenticationIssuer = "authentication.gardener.cloud/issuer"
	// AuthenticationIssuerManaged is the only value of AnnotationAuthenticationIssuer.
	AuthenticationIssuerManaged = "managed"
	// AnnotationEmergencyStopShootReconciliations on a Seed stops reconciling all its Shoots.
	AnnotationEmergencyStopShootReconciliations = "shoot.gardener.cloud/emergency-stop-reconciliations"
	// AnnotationShootUID, also a label, is status.uid of the Shoot an object belongs to.
	AnnotationShootUID = "shoot.gardener.cloud/uid"
	// AnnotationShootMaintenanceWindow is "begin,end" of the Shoot's time window.
	AnnotationShootMaintenanceWindow = "shoot.gardener.cloud/maintenance-window"
	// AnnotationWarning informs the user that a webhook was changed.
	AnnotationWarning = "gardener.cloud/warning"
	// AnnotationDescription explains a deployed object.
	AnnotationDescription = "gardener.cloud/description"
	// AnnotationNodeAgentReconciliationDelay is how long a node waits before it applies a new configuration.
	AnnotationNodeAgentReconciliationDelay = "node-agent.gardener.cloud/reconciliation-delay"
	// AnnotationNodeAgentSerial makes the nodes of a pool apply a new configuration one after the other.
	AnnotationNodeAgentSerial = "reconciliation.osc.node-agent.gardener.cloud/serial"
	// AnnotationPrefixWaitForCSINode names, on a pod, a CSI driver that a new node must have.
	AnnotationPrefixWaitForCSINode = "node.gardener.cloud/wait-for-csi-node-"
	// AnnotationNodeUpdateFailedReason explains a failed update in place.
	AnnotationNodeUpdateFailedReason = "node.machine.sapcloud.io/update-failed-reason"
)

// Annotations of projects' namespaces, of DNS Secrets and others.
const (
	// AnnotationNamespaceProject is the UID of the Project a namespace belongs to.
	AnnotationNamespaceProject = "namespace.gardener.cloud/project"
	// AnnotationNamespaceCreatedByProjectController marks namespaces that were made, not adopted.
	AnnotationNamespaceCreatedByProjectController = "namespace.gardener.cloud/created-by-project-controller"
	// AnnotationNamespaceKeepAfterProjectDeletion releases the namespace instead of deleting it.
	AnnotationNamespaceKeepAfterProjectDeletion = "namespace.gardener.cloud/keep-after-project-deletion"
	// AnnotationProjectSkipStaleCheck keeps a project from being deleted for lack of use.
	AnnotationProjectSkipStaleCheck = "project.gardener.cloud/skip-stale-check"
	// AnnotationSchedulingCloudProfiles lists the profiles that a region ConfigMap is for.
	AnnotationSchedulingCloudProfiles = "scheduling.gardener.cloud/cloudprofiles"
	// AnnotationDNSProvider, with the three below, describes a domain on its Secret.
	AnnotationDNSProvider              = "dns.gardener.cloud/provider"
	AnnotationDNSDomain                = "dns.gardener.cloud/domain"
	AnnotationDNSZone                  = "dns.gardener.cloud/zone"
	AnnotationDNSDefaultDomainPriority = "dns.gardener.cloud/domain-default-priority"
	// AnnotationGenericTokenKubeconfigSecretName names the Secret with the kubeconfig for token files.
	AnnotationGenericTokenKubeconfigSecretName = "generic-token-kubeconfig.secret.gardener.cloud/name"
	// AnnotationPodSecurityEnforce on a ControllerRegistration is the pod security level of the extension's namespaces,
	// and the level that its pods in control planes need. Without it, pods of the extension are not restricted.
	AnnotationPodSecurityEnforce = "security.gardener.cloud/pod-security-enforce"
	// AnnotationAllowExpiredVersions lets a new CloudProfile list expired versions. Our own addition.
	AnnotationAllowExpiredVersions = "hortus.dev/allow-expired-versions"
)

// Annotations of Shoots that are our own additions.
const (
	// AnnotationConfirmOlderSpec rolls out a specification that is older than the one rolled out last, as after a restore
	// of the garden from a backup. It is removed when that is done.
	AnnotationConfirmOlderSpec = "hortus.dev/confirm-older-spec"
	// AnnotationConfirmNewControlPlane creates a new, empty control plane for a Shoot whose control plane is lost. It is
	// removed when that is done.
	AnnotationConfirmNewControlPlane = "hortus.dev/confirm-new-control-plane"
	// AnnotationTakeBackup requests a full snapshot of etcd, with any value. The gardenlet removes it when that is done or
	// has failed.
	AnnotationTakeBackup = "hortus.dev/take-backup"
	// AnnotationRestoreBackup requests that etcd is taken back to revision=N or time=T (RFC 3339). The gardenlet removes
	// it when it begins.
	AnnotationRestoreBackup = "hortus.dev/restore-backup"
	// AnnotationSourceIsDead is an operator's word that the Seed it names, which runs the control plane by
	// status.seedName, is lost: the Seed of spec.seedName takes over without it. It is set through shoots/binding, and
	// removed when that has begun. On a BackupEntry it means the same for the Seed that uses the entry.
	AnnotationSourceIsDead = "hortus.dev/source-is-dead"
)

// AnnotationRestorableFrom on a BackupEntry is the first point that etcd can be restored to: time (RFC 3339) and
// revision, separated by a space. The gardenlet sets it when the Shoot has been created and when the encryption of etcd
// has changed. It only grows. Our own addition.
const AnnotationRestorableFrom = "hortus.dev/restorable-from"

// Operations of Shoots, and Operation values that other kinds know too.
const (
	OperationReconcile          = "reconcile"
	OperationRetry              = "retry"
	OperationMaintain           = "maintain"
	OperationForceInPlaceUpdate = "force-in-place-update"
	OperationMigrate            = "migrate"
	OperationRestore            = "restore"
	OperationWaitForState       = "wait-for-state"
	OperationKeepalive          = "keepalive"

	OperationRotateCredentialsStart                            = "rotate-credentials-start"
	OperationRotateCredentialsStartWithoutWorkersRollout       = "rotate-credentials-start-without-workers-rollout"
	OperationRotateCredentialsComplete                         = "rotate-credentials-complete"
	OperationRotateCAStart                                     = "rotate-ca-start"
	OperationRotateCAStartWithoutWorkersRollout                = "rotate-ca-start-without-workers-rollout"
	OperationRotateCAComplete                                  = "rotate-ca-complete"
	OperationRotateServiceAccountKeyStart                      = "rotate-serviceaccount-key-start"
	OperationRotateServiceAccountKeyStartWithoutWorkersRollout = "rotate-serviceaccount-key-start-without-workers-rollout"
	OperationRotateServiceAccountKeyComplete                   = "rotate-serviceaccount-key-complete"
	OperationRotateETCDEncryptionKey                           = "rotate-etcd-encryption-key"
	OperationRotateETCDEncryptionKeyStart                      = "rotate-etcd-encryption-key-start"
	OperationRotateETCDEncryptionKeyComplete                   = "rotate-etcd-encryption-key-complete"
	OperationRotateObservabilityCredentials                    = "rotate-observability-credentials"
	OperationRotateSSHKeypair                                  = "rotate-ssh-keypair"

	// OperationRotateRolloutWorkersPrefix is followed by pool names, separated by commas.
	OperationRotateRolloutWorkersPrefix = "rotate-rollout-workers="
	// OperationRolloutWorkersPrefix is followed by pool names, separated by commas, or "*".
	OperationRolloutWorkersPrefix = "rollout-workers="
	// OperationSeparator separates the operations of one annotation.
	OperationSeparator = ";"

	OperationRenewGardenAccessSecrets = "renew-garden-access-secrets" // Seed.
	OperationRenewKubeconfig          = "renew-kubeconfig"            // Seed, ManagedSeed.
	OperationForceRedeploy            = "force-redeploy"              // Gardenlet.
)

// Tasks of AnnotationShootTasks. Those that ShootTasks does not list are names of the API without effect.
const (
	ShootTaskDeployInfrastructure              = "deployInfrastructure"
	ShootTaskDeployDNSRecordInternal           = "deployDNSRecordInternal"
	ShootTaskDeployDNSRecordExternal           = "deployDNSRecordExternal"
	ShootTaskDeployDNSRecordIngress            = "deployDNSRecordIngress"
	ShootTaskRestartControlPlanePods           = "restartControlPlanePods"
	ShootTaskRestartCoreAddons                 = "restartCoreAddons"
	ShootTaskUpdateGardenerNodeAgentSecretName = "updateGardenerNodeAgentSecretName"
)

// Labels.
const (
	// LabelShootStatus is healthy, progressing, unhealthy or unknown.
	LabelShootStatus = "shoot.gardener.cloud/status"
	// LabelPrefixSeedName followed by a Seed's name marks, with "true", objects that matter to the Seed.
	LabelPrefixSeedName = "name.seed.gardener.cloud/"
	// LabelSeedProvider and LabelSeedRegion on a Seed are copied from its spec.
	LabelSeedProvider = "seed.gardener.cloud/provider"
	LabelSeedRegion   = "seed.gardener.cloud/region"
	// LabelSeedNetwork with the value private marks Seeds that are not reachable from other networks.
	LabelSeedNetwork = "seed.gardener.cloud/network"
	// LabelSelfHostedShootCluster marks Seeds that are self-hosted Shoots.
	LabelSelfHostedShootCluster = "seed.gardener.cloud/self-hosted-shoot-cluster"
	// LabelShootSelfHosted marks self-hosted Shoots.
	LabelShootSelfHosted = "shoot.gardener.cloud/self-hosted"
	// LabelPrefixProvider, LabelPrefixNetworking and LabelPrefixExtension, followed by a type, mark with "true" objects
	// that use the extension. Those of other kinds are in [LabelPrefixOfKind].
	LabelPrefixProvider   = "provider.extensions.gardener.cloud/"
	LabelPrefixNetworking = "networking.extensions.gardener.cloud/"
	LabelPrefixExtension  = "extensions.extensions.gardener.cloud/"
	// LabelPrefixShootProvider followed by a type marks credentials used in bindings.
	LabelPrefixShootProvider = "provider.shoot.gardener.cloud/"
	// LabelSecretBindingReference and LabelCredentialsBindingReference mark referenced objects.
	LabelSecretBindingReference      = "reference.gardener.cloud/secretbinding"
	LabelCredentialsBindingReference = "reference.gardener.cloud/credentialsbinding"
	// LabelProjectName is the Project a namespace belongs to.
	LabelProjectName = "project.gardener.cloud/name"
	// LabelRole is one of the Role values.
	LabelRole = "gardener.cloud/role"
	// LabelPurpose on the namespace kube-system of a Shoot lets webhooks exclude it.
	LabelPurpose = "gardener.cloud/purpose"
	// LabelExcludeWebhookFromRemediation keeps a webhook from being changed.
	LabelExcludeWebhookFromRemediation = "remediation.webhook.shoot.gardener.cloud/exclude"
	// LabelNoCleanup keeps an object in the Shoot from being deleted with it.
	LabelNoCleanup = "shoot.gardener.cloud/no-cleanup"
	// LabelNodeCriticalComponent marks what a node needs before it takes other workload.
	LabelNodeCriticalComponent = "node.gardener.cloud/critical-component"
	// LabelNodeCandidateForUpdate, LabelNodeSelectedForUpdate and LabelNodeUpdateResult drive updates in place.
	LabelNodeCandidateForUpdate = "node.machine.sapcloud.io/candidate-for-update"
	LabelNodeSelectedForUpdate  = "node.machine.sapcloud.io/selected-for-update"
	LabelNodeUpdateResult       = "node.machine.sapcloud.io/update-result"
	NodeUpdateResultSuccessful  = "successful"
	NodeUpdateResultFailed      = "failed"
	// LabelNodeNotManagedByMCM keeps the machine controller away from a node.
	LabelNodeNotManagedByMCM = "node.machine.sapcloud.io/not-managed-by-mcm"
	// LabelWorkerPool and LabelWorkerPoolDeprecated name the pool of a node.
	LabelWorkerPool           = "worker.gardener.cloud/pool"
	LabelWorkerPoolDeprecated = "worker.garden.sapcloud.io/group"
	// LabelWorkerPoolSystemComponents marks nodes that may run components of kube-system.
	LabelWorkerPoolSystemComponents = "worker.gardener.cloud/system-components"
	// LabelWorkerKubernetesVersion is the version of a node's kubelet.
	LabelWorkerKubernetesVersion = "worker.gardener.cloud/kubernetes-version"
	// LabelWorkerNodeAgentSecretName names the Secret with a node's configuration.
	LabelWorkerNodeAgentSecretName = "worker.gardener.cloud/gardener-node-agent-secret-name"
	// LabelWorkerCRIName and LabelPrefixWorkerContainerRuntime describe a node's container runtimes.
	LabelWorkerCRIName                = "worker.gardener.cloud/cri-name"
	LabelPrefixWorkerContainerRuntime = "containerruntime.worker.gardener.cloud/"
	// LabelNodeLocalDNS specifies whether the DNS cache runs on a node.
	LabelNodeLocalDNS = "networking.gardener.cloud/node-local-dns-enabled"
	// LabelShootProvider, LabelNetworkingProvider, LabelBackupProvider and LabelPrefixExtensionType describe a
	// control plane's namespace.
	LabelShootProvider       = "shoot.gardener.cloud/provider"
	LabelNetworkingProvider  = "networking.shoot.gardener.cloud/provider"
	LabelBackupProvider      = "backup.gardener.cloud/provider"
	LabelPrefixExtensionType = "extensions.gardener.cloud/"
	// LabelShootName, LabelShootNamespace and LabelShootUID are on objects made from a Shoot.
	LabelShootName      = "shoot.gardener.cloud/name"
	LabelShootNamespace = "shoot.gardener.cloud/namespace"
	LabelShootUID       = "shoot.gardener.cloud/uid"
	// LabelControllerRegistrationName is on the namespace of an extension.
	LabelControllerRegistrationName = "controllerregistration.core.gardener.cloud/name"
	// LabelMaintenanceRestart marks pods that the task restartControlPlanePods deletes.
	LabelMaintenanceRestart = "maintenance.gardener.cloud/restart"
	// LabelCareConditionType is the condition that a ManagedResource contributes to.
	LabelCareConditionType = "care.gardener.cloud/condition-type"
	// LabelExposureClassHandlerName is on the namespace of a gateway.
	LabelExposureClassHandlerName = "handler.exposureclass.gardener.cloud/name"
	// LabelSchedulingPurpose with the value region-config marks ConfigMaps with distances for the scheduler.
	LabelSchedulingPurpose        = "scheduling.gardener.cloud/purpose"
	SchedulingPurposeRegionConfig = "region-config"
	// LabelAggregateToProjectMember and LabelAggregateToExtensionRole extend project roles.
	LabelAggregateToProjectMember = "rbac.gardener.cloud/aggregate-to-project-member"
	LabelAggregateToExtensionRole = "rbac.gardener.cloud/aggregate-to-extension-role"
	// LabelEndpointAdvertise and LabelEndpointApplication put an address into status.advertisedAddresses.
	LabelEndpointAdvertise   = "endpoint.shoot.gardener.cloud/advertise"
	LabelEndpointApplication = "endpoint.shoot.gardener.cloud/application"
	// LabelDeletionProtected requires a confirmation of the deletion of an object in a Seed.
	LabelDeletionProtected = "gardener.cloud/deletion-protected"
	// LabelPersist marks Secrets of a control plane that are saved in the ShootState.
	LabelPersist = "persist"
)

// Values of LabelShootStatus.
const (
	ShootStatusHealthy     = "healthy"
	ShootStatusProgressing = "progressing"
	ShootStatusUnhealthy   = "unhealthy"
	ShootStatusUnknown     = "unknown"
)

// Values of LabelRole.
const (
	RoleProject               = "project"
	RoleGarden                = "garden"
	RoleSeed                  = "seed"
	RoleShoot                 = "shoot"
	RoleControlPlane          = "controlplane"
	RoleExtension             = "extension"
	RoleIngress               = "istio-ingress" // Namespaces of gateways; the value is that of the Gardener API.
	RoleMonitoring            = "monitoring"
	RoleObservability         = "observability"
	RoleSystemComponent       = "system-component"
	RoleKubeconfig            = "kubeconfig"
	RoleSSHKeypair            = "ssh-keypair"
	RoleCACluster             = "ca-cluster"
	RoleCAKubelet             = "ca-kubelet"
	RoleCAClient              = "ca-client"
	RoleDefaultDomain         = "default-domain"
	RoleInternalDomain        = "internal-domain"
	RoleAlerting              = "alerting"
	RoleControlPlaneCert      = "controlplane-cert"
	RoleResourceReference     = "resource-reference"
	RoleOperatingSystemConfig = "operating-system-config"
	RoleHelmPullSecret        = "helm-pull-secret"
	RoleOCICABundle           = "oci-ca-bundle"
)

// Taints.
const (
	// SeedTaintProtected keeps all Shoots away but those of the project garden.
	SeedTaintProtected = "seed.gardener.cloud/protected"
	// TaintNodeCriticalComponentsNotReady, NoSchedule, is on a new node until its critical components are ready.
	TaintNodeCriticalComponentsNotReady = "node.gardener.cloud/critical-components-not-ready"
)

// Finalizers.
const (
	// FinalizerName is on objects that a controller must clean up after.
	FinalizerName = "gardener"
	// FinalizerExternal is on objects of others that are in use.
	FinalizerExternal = "gardener.cloud/gardener"
	// FinalizerReferenceProtection is on what a Shoot refers to, and on the Shoot itself meanwhile.
	FinalizerReferenceProtection    = "gardener.cloud/reference-protection"
	FinalizerSecretBinding          = "gardener.cloud/secretbinding"
	FinalizerCredentialsBinding     = "gardener.cloud/credentialsbinding"
	FinalizerControllerRegistration = "core.gardener.cloud/controllerregistration"
	FinalizerControllerDeployment   = "core.gardener.cloud/controllerdeployment"
	FinalizerControllerInstallation = "core.gardener.cloud/controllerinstallation"
	FinalizerShootState             = "core.gardener.cloud/shootstate"
	FinalizerBackupBucket           = "core.gardener.cloud/backupbucket"
)

// Names and namespaces.
const (
	// GardenNamespace holds what belongs to the landscape as a whole.
	GardenNamespace = "garden"
	// ProjectNamespacePrefix begins the names of projects' namespaces.
	ProjectNamespacePrefix = "garden-"
	// SeedNamespacePrefix followed by a Seed's name is its namespace in the garden.
	SeedNamespacePrefix = "seed-"
	// SeedLeaseNamespace holds a Lease per Seed.
	SeedLeaseNamespace = "gardener-system-seed-lease"
	// ShootIssuerNamespace holds the keys of managed issuers.
	ShootIssuerNamespace = "gardener-system-shoot-issuer"
	// PublicNamespace holds what everybody may read.
	PublicNamespace = "gardener-system-public"
	// TechnicalIDPrefix begins the names of control planes' namespaces.
	TechnicalIDPrefix = "shoot--"
	// ExtensionNamespacePrefix followed by the ControllerInstallation's name is an extension's namespace in a Seed.
	ExtensionNamespacePrefix = "extension-"
	// DefaultSchedulerName is the default of spec.schedulerName.
	DefaultSchedulerName = "default-scheduler"

	// Suffixes of objects in the project's namespace, after the Shoot's name and a dot.
	ShootSuffixSSHKeypair    = "ssh-keypair"
	ShootSuffixOldSSHKeypair = "ssh-keypair.old"
	ShootSuffixMonitoring    = "monitoring"
	ShootSuffixCACluster     = "ca-cluster" // ConfigMap, key ca.crt.
	ShootSuffixCAKubelet     = "ca-kubelet" // ConfigMap, key ca.crt.
	ShootSuffixCAClient      = "ca-client"  // InternalSecret, keys ca.crt and ca.key.

	// DataKeyCertificateCA and DataKeyPrivateKeyCA are the keys of certificate authorities.
	DataKeyCertificateCA = "ca.crt"
	DataKeyPrivateKeyCA  = "ca.key"

	// ClusterIdentityName is the name of the ConfigMap in kube-system with the identity of a cluster, and the key of the
	// identity in it. DataKeyOrigin says what the cluster is: "shoot", "seed", or "gardener-apiserver" for a garden.
	ClusterIdentityName = "cluster-identity"
	DataKeyOrigin       = "origin"

	// CloudProfileKind and NamespacedCloudProfileKind are the kinds of a CloudProfileReference.
	CloudProfileKind           = "CloudProfile"
	NamespacedCloudProfileKind = "NamespacedCloudProfile"

	// ArchitectureAMD64 and ArchitectureARM64 are the machine architectures.
	ArchitectureAMD64 = "amd64"
	ArchitectureARM64 = "arm64"

	// SeedResourceShoots is the key of Seeds' capacity that counts Shoots.
	SeedResourceShoots = "shoots"
)

// Names of advertised addresses.
const (
	AdvertisedAddressExternal             = "external"
	AdvertisedAddressInternal             = "internal"
	AdvertisedAddressUnmanaged            = "unmanaged"
	AdvertisedAddressServiceAccountIssuer = "service-account-issuer"
	AdvertisedAddressWildcardTLSSeedBound = "wildcard-tls-seed-bound"
)

// Users and groups.
const (
	ClusterRoleAdministrators = "gardener.cloud:system:administrators"
	SeedUserPrefix            = "gardener.cloud:system:seed:"
	SeedsGroup                = "gardener.cloud:system:seeds"
	ShootUserPrefix           = "gardener.cloud:system:shoot:"
	ShootsGroup               = "gardener.cloud:system:shoots"
	ShootAdminUserPrefix      = "gardener.cloud:admin:"
	ShootViewerUserPrefix     = "gardener.cloud:viewer:"
	ShootSystemAdminsGroup    = "gardener.cloud:system:admins"
	ShootSystemViewersGroup   = "gardener.cloud:system:viewers"
	ShootProjectAdminsGroup   = "gardener.cloud:project:admins"
	ShootProjectViewersGroup  = "gardener.cloud:project:viewers"
	NodeAgentsGroup           = "gardener.cloud:node-agents"
	NodeAgentUserPrefix       = "gardener.cloud:node-agent:machine:"
)

// Users and groups of Kubernetes itself.
const (
	KubeletUserPrefix   = "system:node:" // The name of the Node follows.
	KubeletsGroup       = "system:nodes"
	BootstrapUserPrefix = "system:bootstrap:" // The ID of the bootstrap token follows.
	BootstrappersGroup  = "system:bootstrappers"
)

// NodeAgentLeasePrefix begins the name of a node agent's Lease in kube-system of a Shoot; the name of its Node follows.
const NodeAgentLeasePrefix = "gardener-node-agent-"

// Claims are rights, in a Shoot, to no real resource: a machine may set on its Node what it may claim. Admission checks
// them.
const (
	ClaimGroup = "worker.gardener.cloud"
	ClaimVerb  = "claim"
	// ClaimPools is about a pool, by name.
	ClaimPools = "pools"
	// ClaimSystemComponents is about running components of kube-system; the name is the value of the label.
	ClaimSystemComponents = "systemcomponents"
)

// Verbs beyond those of Kubernetes.
const (
	VerbModifyTolerationsWhitelist = "modify-spec-tolerations-whitelist"
	VerbManageMembers              = "manage-members"
	VerbModifyKubernetes           = "modify-spec-kubernetes"
	VerbModifyMachineImages        = "modify-spec-machineimages"
	VerbModifyProviderConfig       = "modify-spec-providerconfig"
	VerbMarkSelfHosted             = "mark-self-hosted"
)

// Conditions of Shoots.
const (
	ShootAPIServerAvailable             ConditionType = "APIServerAvailable"
	ShootControlPlaneHealthy            ConditionType = "ControlPlaneHealthy"
	ShootObservabilityComponentsHealthy ConditionType = "ObservabilityComponentsHealthy"
	ShootEveryNodeReady                 ConditionType = "EveryNodeReady"
	ShootSystemComponentsHealthy        ConditionType = "SystemComponentsHealthy"
)

// Constraints of Shoots.
const (
	ShootHibernationPossible                   ConditionType = "HibernationPossible"
	ShootMaintenancePreconditionsSatisfied     ConditionType = "MaintenancePreconditionsSatisfied"
	ShootCACertificateValiditiesAcceptable     ConditionType = "CACertificateValiditiesAcceptable"
	ShootManualInPlaceWorkersUpdated           ConditionType = "ManualInPlaceWorkersUpdated"
	ShootCRDsWithProblematicConversionWebhooks ConditionType = "CRDsWithProblematicConversionWebhooks"
	ShootReadyForMigration                     ConditionType = "ReadyForMigration"
	ShootAutomaticCredentialsRotationPossible  ConditionType = "AutomaticCredentialsRotationPossible"
)

// Conditions of Seeds.
const (
	SeedGardenletReady          ConditionType = "GardenletReady"
	SeedBackupBucketsReady      ConditionType = "BackupBucketsReady"
	SeedExtensionsReady         ConditionType = "ExtensionsReady"
	SeedSystemComponentsHealthy ConditionType = "SeedSystemComponentsHealthy"
	// SeedEmergencyStopShootReconciliations is True while an operator has stopped the operations on the Seed's Shoots, and
	// missing otherwise.
	SeedEmergencyStopShootReconciliations ConditionType = "EmergencyStopShootReconciliations"
	// SeedControlPlanesKnown is False if there are control planes on the seed whose Shoots the garden does not know. Our
	// own addition.
	SeedControlPlanesKnown ConditionType = "ControlPlanesKnown"
)

// Conditions of ControllerInstallations.
const (
	ControllerInstallationValid       ConditionType = "Valid"
	ControllerInstallationInstalled   ConditionType = "Installed"
	ControllerInstallationHealthy     ConditionType = "Healthy"
	ControllerInstallationProgressing ConditionType = "Progressing"
	ControllerInstallationRequired    ConditionType = "Required"
)

// ConditionReasonInitialized is the reason of a condition that was not checked yet.
const ConditionReasonInitialized = "ConditionInitialized"

// Error codes.
const (
	ErrorInfraUnauthenticated          ErrorCode = "ERR_INFRA_UNAUTHENTICATED"
	ErrorInfraUnauthorized             ErrorCode = "ERR_INFRA_UNAUTHORIZED"
	ErrorInfraQuotaExceeded            ErrorCode = "ERR_INFRA_QUOTA_EXCEEDED"
	ErrorInfraRateLimitsExceeded       ErrorCode = "ERR_INFRA_RATE_LIMITS_EXCEEDED"
	ErrorInfraDependencies             ErrorCode = "ERR_INFRA_DEPENDENCIES"
	ErrorRetryableInfraDependencies    ErrorCode = "ERR_RETRYABLE_INFRA_DEPENDENCIES"
	ErrorInfraResourcesDepleted        ErrorCode = "ERR_INFRA_RESOURCES_DEPLETED"
	ErrorCleanupClusterResources       ErrorCode = "ERR_CLEANUP_CLUSTER_RESOURCES"
	ErrorConfigurationProblem          ErrorCode = "ERR_CONFIGURATION_PROBLEM"
	ErrorRetryableConfigurationProblem ErrorCode = "ERR_RETRYABLE_CONFIGURATION_PROBLEM"
	ErrorProblematicWebhook            ErrorCode = "ERR_PROBLEMATIC_WEBHOOK"
)

// Event reasons that are our own additions.
const (
	EventBackupTaken  = "BackupTaken"
	EventBackupFailed = "BackupFailed"
	// EventBackupRestored and EventBackupNotRestored are the outcomes of hortus.dev/restore-backup.
	EventBackupRestored    = "BackupRestored"
	EventBackupNotRestored = "BackupNotRestored"
)

// Event reasons.
const (
	EventReconciling                    = "Reconciling"
	EventReconciled                     = "Reconciled"
	EventReconcileError                 = "ReconcileError"
	EventDeleting                       = "Deleting"
	EventDeleted                        = "Deleted"
	EventDeleteError                    = "DeleteError"
	EventPrepareMigration               = "PrepareMigration"
	EventMigrationPrepared              = "MigrationPrepared"
	EventMigrationPreparationFailed     = "MigrationPreparationFailed"
	EventSchedulingSuccessful           = "SchedulingSuccessful"
	EventSchedulingFailed               = "SchedulingFailed"
	EventMaintenanceFailed              = "MaintenanceFailed"
	EventKubernetesVersionMaintenance   = "KubernetesVersionMaintenance"
	EventMachineImageVersionMaintenance = "MachineImageVersionMaintenance"
	EventHibernated                     = "Hibernated"
	EventWokenUp                        = "WokenUp"
	EventResourceReferenced             = "ResourceReferenced"
)
