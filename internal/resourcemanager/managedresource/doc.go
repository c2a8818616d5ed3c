// Package managedresource keeps the objects of ManagedResources in the target cluster and reports how they are.
//
// One reconciler does it all for a ManagedResource, so that its status has one writer: read the Secrets (decode.go),
// delete what is no longer wanted (delete.go), apply the rest in the order of kinds (apply.go, merge.go), then judge
// (observe.go). It is triggered by watches on the ManagedResources, on the metadata of the Secrets they name, and on
// the metadata of the objects it has applied (owned.go). The last also shows that an object is as it was left, so that
// the periodic resync costs no requests at all.
package managedresource
