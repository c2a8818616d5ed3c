// Package v1alpha1 is the contract between the gardenlet and extensions, API group extensions.gardener.cloud.
//
// The gardenlet writes the spec of an object and requests operations with the annotation gardener.cloud/operation.
// Exactly one extension, chosen by spec.type and spec.class, acts on it and answers in the status. Every kind but
// Cluster implements [Object], so that both sides treat all kinds alike.
//
// All objects live in a seed. Those of a Shoot are in its control plane namespace; BackupBucket, BackupEntry and
// Cluster have no namespace.
//
// +kubebuilder:object:generate=true
// +groupName=extensions.gardener.cloud
package v1alpha1
