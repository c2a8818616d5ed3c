// Package backupentry keeps the places of Shoots in the buckets of a seed.
//
// Trigger: BackupEntries of the garden that the own seed is responsible for, the extension BackupEntry of the same
// name in the seed, a BackupBucket that has become ready, and time. Inputs: the BackupBucket and its credentials.
// Outputs: in the seed the Secret garden/entry-<name> and the extension BackupEntry, and the status. Finalizer:
// gardener, until the backups are deleted, which is after the grace period.
//
// A seed is responsible for what status.seedName says, and for what spec.seedName says where the former is empty.
// When they differ the entry moves: the old seed releases the backups without touching them, and empties
// status.seedName; the new one takes them over.
package backupentry
