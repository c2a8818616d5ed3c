// Package extension is a library for writing extensions: controllers for objects of extensions.gardener.cloud.
//
// An author implements [Actuator] for a kind and registers it with a [Reconciler], which implements the operation
// contract: when to act and when not, which operation to run, finalizers, annotations, and the status at each point. An
// actuator never waits: it returns [Waiting] with a reason, and is called again when something it watches changes. An
// actuator whose objects may need another reconciliation after they have succeeded, because of changes made by others,
// is a [Follower].
//
// Subpackages: errorcode classifies errors, heartbeat renews the extension's Lease, managedresource has objects applied
// by the resource-manager, poolhash computes the hashes of worker pools, userdata renders user data for machines,
// worker is a complete actuator for machines that needs only a few provider functions, and conformance checks any
// extension against the contract.
package extension
