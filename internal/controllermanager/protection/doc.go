// Package protection prevents the deletion of objects of the garden while others refer to them.
//
// Every kind in the list (kinds.go) has a finalizer. A deleted object keeps it until nothing refers to it; an event
// names the remaining users. The controllers differ only in the kind, the finalizer and the references, so there is one
// reconciler and a table.
//
// Trigger: objects of the kind, and changes of those that refer to it. Writes: the finalizer, events.
package protection
