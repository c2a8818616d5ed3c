// Package backupentry manages the places of Shoots in the buckets of a seed.
//
// Trigger: BackupEntries of the garden for which the own seed is responsible, the extension BackupEntry of the same
// name in the seed, a BackupBucket that has become ready, and time. Inputs: the BackupBucket and its credentials.
// Outputs: in the seed the Secret garden/entry-<name> and the extension BackupEntry; in the garden the status.
// Finalizer: gardener, until the backups are deleted after the grace period.
//
// The responsible seed is the one in status.seedName, or the one in spec.seedName if the former is empty. If they
// differ, the entry moves: the old seed releases the backups without changing them, and clears status.seedName; the new
// one adopts them.
package backupentry
