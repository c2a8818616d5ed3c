// Package seed keeps the Seed of a gardenlet: it registers it, prepares the cluster (definitions, priority classes, the
// gateway, the resource-manager for what gardenlets install), reports its health as conditions, and renews the Lease by
// which the garden sees that the gardenlet lives. A Seed with spec.backup gets a BackupBucket, named by its UID.
//
// Trigger: the Seed, its BackupBucket, the Deployments it makes, time. Writes: Seed, BackupBucket and Lease in the
// garden, objects in the seed. Finalizer: gardener, until no Shoot, no BackupBucket and no ControllerInstallation of
// the Seed is left.
package seed
