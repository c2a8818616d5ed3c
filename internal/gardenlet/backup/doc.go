// Package backup has what the controllers of BackupBuckets and BackupEntries share: reading credentials for an object
// store, and writing the status of the objects in the garden.
package backup
