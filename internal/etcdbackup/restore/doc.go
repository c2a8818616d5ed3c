// Package restore makes sure, before etcd starts, that its data directory is there and not older than the backups.
//
// Run gathers Facts about the data directory and the store, Decide says what is to be done, and Run does it. A restore
// writes the full snapshot of a chain to a file, applies the deltas to the file without a server, and lets etcd's own
// library make a data directory of it: with a new log, revisions moved far ahead, and everything up to there marked as
// compacted, so that watches and caches of clients start over instead of missing changes.
//
// Everything is done in a folder beside the data directory, which is renamed last. A restore that is interrupted
// leaves nothing that etcd would start with, and the next one begins anew.
package restore
