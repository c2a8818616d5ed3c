// Package extension is the kit for writing extensions: what acts on the objects of extensions.gardener.cloud.
//
// An author implements [Actuator] for a kind and registers it with a [Reconciler], which keeps the operation contract:
// when to act and when not, which operation it is, finalizers, annotations, and what the status says at each point. An
// actuator never waits: it answers [Waiting] with a reason, and is called again when something it watches changes. One
// that is needed again after it has succeeded, because of what others do, is a [Follower].
//
// Subpackages: errorcode classifies errors, heartbeat renews the extension's Lease, worker is a complete actuator for
// machines given a few provider functions, and conformance checks any extension against the contract.
package extension
