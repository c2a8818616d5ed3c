// Package chain evaluates the backups of an etcd cluster from a plain listing of an object store.
//
// An Object is a backup: a full snapshot or a delta. Its name carries epoch, revisions, kind and creation time, so no
// object has to be opened for a decision. A Chain is a full snapshot and the deltas that extend it without a gap. A
// Claim says that an owner has taken over with a new epoch; objects that an older owner writes after that are ignored
// by Owned. Retain returns the objects that may be deleted.
//
// Everything here is pure: objects, options and a time in, a value out.
package chain
