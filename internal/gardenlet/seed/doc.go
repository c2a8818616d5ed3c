// Package seed maintains the Seed of a gardenlet: it registers the Seed, prepares the cluster
// (CustomResourceDefinitions, priority classes, the gateway, the resource-manager for what gardenlets install), reports
// the Seed's health as conditions, and renews the Lease by which the garden sees that the gardenlet is alive. A Seed
// with spec.backup gets a BackupBucket, named by the Seed's UID.
//
// Trigger: the Seed, its BackupBucket, the Deployments that it creates, the end of Shoots of a Seed in deletion, time.
// Writes: Seed, BackupBucket and Lease in the garden, objects in the seed. Finalizer: gardener, until the Seed has no
// Shoot, BackupBucket and ControllerInstallation left. Until then a Seed in deletion is maintained like any other.
package seed
