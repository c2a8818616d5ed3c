// Package cloud is the Go client of the local cloud: the wire types of its JSON API (version 1), typed errors and a
// Client with one method per operation.
//
// Creating calls are idempotent by name: a second create with the same name (within one account) and the same
// parameters returns the object made by the first; other parameters give AlreadyExists. Deleting calls answer
// NoSuchResource when the object is gone, see IgnoreNotFound. Objects belong to the account of the credentials that
// made them; other accounts do not see them, administrators see all.
//
// Changes are watched, not polled: Client.Events blocks until something happened after a revision, Client.Watch loops.
package cloud
