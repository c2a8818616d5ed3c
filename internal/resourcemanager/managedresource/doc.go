// Package managedresource keeps the objects of ManagedResources applied in the target cluster and reports their state.
//
// A single reconciler does everything for a ManagedResource, so that its status has one writer: it reads the Secrets
// (decode.go), deletes objects that are no longer wanted (delete.go), applies the others in the order of their kinds
// (apply.go, merge.go), and then checks them (observe.go). It is triggered by watches on the ManagedResources, on the
// metadata of the Secrets that they reference, and on the metadata of the objects that it has applied (owned.go). The
// last also shows whether an object is unchanged since it was applied, so that the periodic resync costs no requests at
// all.
package managedresource
