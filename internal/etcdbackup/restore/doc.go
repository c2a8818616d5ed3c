// Package restore makes sure, before etcd starts, that its data directory exists and is not older than the backups.
//
// Run gathers Facts about the data directory and the store, Decide chooses an action, and Run carries it out. A restore
// writes the full snapshot of a chain to a file, applies the deltas to the file without a server, and lets etcd's own
// library make a data directory of it: with a new log, revisions moved far ahead, and everything up to there marked as
// compacted, so that watches and caches of clients start over instead of missing changes.
//
// The data directory is built in a folder next to it, which is renamed last. An interrupted restore leaves nothing that
// etcd would start with, and the next one begins anew.
package restore
