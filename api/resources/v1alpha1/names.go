package v1alpha1

// Class values of a ManagedResource. A nil class is for the resource-manager of a Shoot.
const (
	// ClassSeed is for objects of the seed itself.
	ClassSeed = "seed"
	// ClassGarden on a Secret with PurposeTokenRequestor requests a token of the garden from the gardenlet.
	ClassGarden = "garden"
)

// Annotations on managed objects and on ManagedResources.
const (
	// AnnotationIgnore, "true", on a ManagedResource stops its reconciliation; on an object it is only created, never
	// updated.
	AnnotationIgnore = "resources.gardener.cloud/ignore"
	// AnnotationMode with ModeIgnore makes an object unmanaged.
	AnnotationMode = "resources.gardener.cloud/mode"
	// ModeIgnore is the value of AnnotationMode.
	ModeIgnore = "Ignore"
	// AnnotationSkipHealthCheck, "true", leaves an object out of the health checks.
	AnnotationSkipHealthCheck = "resources.gardener.cloud/skip-health-check"
	// AnnotationDeleteOnInvalidUpdate, "true", deletes and recreates an object whose update the API server calls invalid.
	AnnotationDeleteOnInvalidUpdate = "resources.gardener.cloud/delete-on-invalid-update"
	// AnnotationDeletionPropagationOnInvalidUpdate is Background, Foreground or Orphan.
	AnnotationDeletionPropagationOnInvalidUpdate = "resources.gardener.cloud/deletion-propagation-on-invalid-update"
	// AnnotationKeepObject, "true", keeps an object when its ManagedResource no longer contains it or is deleted.
	AnnotationKeepObject = "resources.gardener.cloud/keep-object"
	// AnnotationPreserveReplicas, "true", keeps the replicas found.
	AnnotationPreserveReplicas = "resources.gardener.cloud/preserve-replicas"
	// AnnotationPreserveResources, "true", keeps the resource requests and limits found.
	AnnotationPreserveResources = "resources.gardener.cloud/preserve-resources"
	// AnnotationFinalizeDeletionAfter is a duration after which the finalizers of an object in deletion are removed.
	AnnotationFinalizeDeletionAfter = "resources.gardener.cloud/finalize-deletion-after"
	// AnnotationOrigin is the ManagedResource that an object belongs to, as [<cluster>:]<namespace>/<name>.
	AnnotationOrigin = "resources.gardener.cloud/origin"
	// AnnotationDescription is a human-readable note on a managed object.
	AnnotationDescription = "resources.gardener.cloud/description"
)

// Labels.
const (
	// LabelManagedBy, with value ManagedByGardener, is on all managed objects.
	LabelManagedBy = "resources.gardener.cloud/managed-by"
	// ManagedByGardener is the value of LabelManagedBy.
	ManagedByGardener = "gardener"
	// LabelOrigin on a ManagedResource is its creator; OriginGardener marks those of the gardenlet.
	LabelOrigin = "origin"
	// OriginGardener is the value of LabelOrigin.
	OriginGardener = "gardener"
	// LabelGarbageCollectable, "true", on a ConfigMap or Secret lets it be deleted once nothing refers to it.
	LabelGarbageCollectable = "resources.gardener.cloud/garbage-collectable-reference"
	// LabelPurpose with PurposeTokenRequestor, on a Secret, requests a token of the target cluster.
	LabelPurpose = "resources.gardener.cloud/purpose"
	// PurposeTokenRequestor is the value of LabelPurpose.
	PurposeTokenRequestor = "token-requestor"
	// LabelClass on a Secret with PurposeTokenRequestor chooses the resource-manager that serves it.
	LabelClass = "resources.gardener.cloud/class"
	// LabelRequestedIn on a ServiceAccount of an extension in the garden is the namespace of the Secret in the seed that
	// requests its tokens.
	LabelRequestedIn = "hortus.dev/requested-in"
)

// Annotations of Secrets with PurposeTokenRequestor.
const (
	// AnnotationServiceAccountName names the ServiceAccount in the target cluster.
	AnnotationServiceAccountName = "serviceaccount.resources.gardener.cloud/name"
	// AnnotationServiceAccountNamespace is its namespace.
	AnnotationServiceAccountNamespace = "serviceaccount.resources.gardener.cloud/namespace"
	// AnnotationServiceAccountLabels are its labels, as JSON object.
	AnnotationServiceAccountLabels = "serviceaccount.resources.gardener.cloud/labels"
	// AnnotationTokenExpirationDuration is the requested lifetime of the token. Default 12h.
	AnnotationTokenExpirationDuration = "serviceaccount.resources.gardener.cloud/token-expiration-duration"
	// AnnotationInjectCABundle, "true", requests the CA certificates of the target cluster's API server: in the key
	// bundle.crt, or in the kubeconfig if the Secret has one.
	AnnotationInjectCABundle = "serviceaccount.resources.gardener.cloud/inject-ca-bundle"
	// AnnotationTokenRenewTimestamp is when the token is renewed, RFC 3339.
	AnnotationTokenRenewTimestamp = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
)

// FinalizerName is the finalizer of the resource-manager; a class is appended with a dash.
const FinalizerName = "resources.gardener.cloud/gardener-resource-manager"

// Condition types.
const (
	// ResourcesApplied reports whether all objects are applied.
	ResourcesApplied = "ResourcesApplied"
	// ResourcesHealthy reports whether all objects are healthy.
	ResourcesHealthy = "ResourcesHealthy"
	// ResourcesProgressing reports whether an object is still being rolled out.
	ResourcesProgressing = "ResourcesProgressing"
)

// Condition reasons.
const (
	ReasonApplySucceeded                   = "ApplySucceeded"
	ReasonApplyFailed                      = "ApplyFailed"
	ReasonApplyProgressing                 = "ApplyProgressing"
	ReasonDecodingFailed                   = "DecodingFailed"
	ReasonDeletionFailed                   = "DeletionFailed"
	ReasonDeletionPending                  = "DeletionPending"
	ReasonReleaseOfOrphanedResourcesFailed = "ReleaseOfOrphanedResourcesFailed"
	ReasonManagedResourceIgnored           = "ManagedResourceIgnored"
	ReasonChecksPending                    = "ChecksPending"
	ReasonCannotReadSecret                 = "CannotReadSecret"
	ReasonResourcesHealthy                 = "ResourcesHealthy"
	ReasonResourcesRolledOut               = "ResourcesRolledOut"
	ReasonHealthCheckError                 = "HealthCheckError"
)

// Labels and annotations by which workloads in a seed get replicas and places.
const (
	prefixHighAvailability = "high-availability-config.resources.gardener.cloud/"

	// LabelHighAvailabilityConsider, "true" on a namespace, means that workloads with LabelHighAvailabilityType are
	// changed.
	LabelHighAvailabilityConsider = prefixHighAvailability + "consider"
	// LabelHighAvailabilityType on a workload is HighAvailabilityController or HighAvailabilityServer: controllers elect a
	// leader, of servers all replicas work.
	LabelHighAvailabilityType  = prefixHighAvailability + "type"
	HighAvailabilityController = "controller"
	HighAvailabilityServer     = "server"
	// LabelHighAvailabilitySkip on a workload leaves it as it is.
	LabelHighAvailabilitySkip = prefixHighAvailability + "skip"

	// AnnotationHighAvailabilityFailureTolerance on a namespace is "node" or "zone", or empty if no failure has to be
	// tolerated. A namespace without it is not that of a control plane.
	AnnotationHighAvailabilityFailureTolerance = prefixHighAvailability + "failure-tolerance-type"
	// AnnotationHighAvailabilityZones on a namespace lists its zones, with commas between them.
	AnnotationHighAvailabilityZones = prefixHighAvailability + "zones"
	// AnnotationHighAvailabilityZonePinning, "true" on a namespace, keeps pods in these zones also without
	// AnnotationHighAvailabilityFailureTolerance.
	AnnotationHighAvailabilityZonePinning = prefixHighAvailability + "zone-pinning"

	// AnnotationHighAvailabilityReplicas on a workload is its number of replicas, instead of that of its type.
	AnnotationHighAvailabilityReplicas = prefixHighAvailability + "replicas"
	// AnnotationHighAvailabilityHostSpread, "true" on a workload, never places two of its pods on one node.
	AnnotationHighAvailabilityHostSpread = prefixHighAvailability + "host-spread"
)
