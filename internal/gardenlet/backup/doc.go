// Package backup has what the controllers of BackupBuckets and BackupEntries share: the credentials for an object
// store, and how the status of the garden's objects is written.
package backup
