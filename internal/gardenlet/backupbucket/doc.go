// Package backupbucket creates the buckets for the backups of a seed's etcds.
//
// Trigger: BackupBuckets of the garden whose spec.seedName is the own seed; the extension BackupBucket of the same name
// in the seed; the removal of a BackupEntry; and time: gardenlets may not watch Secrets of the garden, so the
// credentials are read again every syncPeriod. Inputs: the credentials that the BackupBucket refers to. Outputs: in the
// seed the Secret garden/bucket-<name> and the extension BackupBucket; in the garden the Secret
// garden/generated-bucket-<name> if the extension has generated credentials for the bucket, and the status. Finalizers:
// gardener, until no BackupEntry of the seed uses the bucket and the bucket is deleted;
// core.gardener.cloud/backupbucket on the generated Secret.
package backupbucket
