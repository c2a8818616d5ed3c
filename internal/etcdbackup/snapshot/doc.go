// Package snapshot takes backups of a running etcd: full snapshots by schedule, and deltas from a watch of all keys.
//
// A Taker runs sessions. A session begins with a listing of the store, from which it takes the last saved revision, and
// watches from there. On any problem with etcd or the store the session ends, and the next one begins after a pause,
// without any state of the last one. While the store fails, events are kept up to a limit, then dropped: the next
// session watches them again from etcd, or, if etcd has compacted them, begins with a full snapshot.
//
// Deltas are a sequence of their own that does not depend on full snapshots: a delta extends every full snapshot that
// lies in or right before its range.
package snapshot
