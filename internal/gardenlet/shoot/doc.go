// Package shoot reconciles Shoots: it decides what to do with a Shoot (decide.go), runs one pass of its flow
// (reconciler.go, package steps), and writes the progress (status.go).
//
// A pass never waits. What it waits for is watched in the seed, and a change there starts the next pass; a requeue
// after half a minute covers what cannot be watched. An operation continues, over passes and restarts, until everything
// is done. Each extension object is requested to act once per operation, whose start is recorded on the Cluster object.
//
// # Errors
//
// A failed step sets the state of the operation to Error; the operation is retried with exponential backoff for
// retryDuration. Errors with a code that only a user can resolve set it to Failed at once. Failed ends the work until
// the spec changes or the user requests a retry. There is one exception: a quota may be raised by somebody who never
// sees the Shoot. With that code, the Cluster object keeps the operation in state Error, so that the extension retries
// by itself, and when the object with the error succeeds, the gardenlet resumes the operation.
package shoot
