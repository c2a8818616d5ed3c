package v1alpha1

// GardenerVersion is the version of Gardener whose contract with extensions this package and the gardenlet implement.
// Charts of extensions get it as the value gardener.version, and choose by it between names and fields of older and
// newer versions. It is raised together with the contract, regardless of the version of Hortus.
const GardenerVersion = "v1.120.0"

// Annotations and labels of the contract. See also core/v1beta1 for those shared with garden objects.
const (
	// AnnotationOperation requests an operation from the extension: one of the Operation values.
	AnnotationOperation = "gardener.cloud/operation"
	// AnnotationTimestamp is the RFC 3339 time, with nanoseconds, at which the operation was requested.
	AnnotationTimestamp = "gardener.cloud/timestamp"
	// AnnotationConfirmDeletion must be "true" before an object may be deleted.
	AnnotationConfirmDeletion = "confirmation.gardener.cloud/deletion"
	// AnnotationConfirmForceDeletion, "true" on a Shoot, makes extensions release its objects without deleting the
	// infrastructure.
	AnnotationConfirmForceDeletion = "confirmation.gardener.cloud/force-deletion"
	// AnnotationGeneratedSecretNamespace names the namespace for the Secret a BackupBucket generates.
	AnnotationGeneratedSecretNamespace = "backupbucket.extensions.gardener.cloud/generated-secret-namespace"
	// AnnotationIPStack on a DNSRecord is ipv4, ipv6 or dual-stack.
	AnnotationIPStack = "dns.gardener.cloud/ip-stack"
	// AnnotationGenericTokenKubeconfig on a Cluster names the Secret with the kubeconfig for token files.
	AnnotationGenericTokenKubeconfig = "generic-token-kubeconfig.secret.gardener.cloud/name"
	// LabelMutatedByControlPlaneWebhook, "true", sends an object through the provider's webhooks.
	LabelMutatedByControlPlaneWebhook = "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook"
	// LabelDeletionProtected, "true" on a CustomResourceDefinition, requires a confirmation of its deletion.
	LabelDeletionProtected = "gardener.cloud/deletion-protected"
)

// Values of AnnotationOperation.
const (
	// OperationReconcile requests that the infrastructure matches the spec.
	OperationReconcile = "reconcile"
	// OperationMigrate requests that the extension stops managing the infrastructure, which stays unchanged.
	OperationMigrate = "migrate"
	// OperationRestore requests adoption of the infrastructure from status.state.
	OperationRestore = "restore"
	// OperationWaitForState means that the extension must not act until status.state is set.
	OperationWaitForState = "wait-for-state"
)

// HeartbeatLease is the name of the Lease an extension renews in its own namespace.
const HeartbeatLease = "gardener-extension-heartbeat"

// FinalizerPrefix followed by a kind's suffix is the finalizer of the extension that acts on the object.
const FinalizerPrefix = "extensions.gardener.cloud/"
