// Package shoot reconciles Shoots: it decides what is to be done with one (decide.go), runs one pass of the flow for it
// (reconciler.go, package steps), and writes how far it is (status.go).
//
// A pass never waits. What it waits for is watched in the seed, and a change there starts the next pass; a requeue
// after half a minute covers what cannot be watched. An operation is continued, over passes and restarts, until
// everything is done; extension objects are asked to act once per operation, whose start is kept on the Cluster object.
//
// # Errors
//
// A failed step makes the operation an Error, which is retried with growing pauses for retryDuration. Errors with a
// code that only a user can resolve make it Failed at once. Failed ends the work until the spec changes or the user
// asks for a retry - with one exception: a quota may be raised by somebody who never sees the Shoot. For that code the
// Cluster object keeps saying that the operation goes on, so that the extension retries by itself, and when the object
// that had the error succeeds, the gardenlet resumes the operation.
package shoot
