// Package protection keeps objects of the garden from going away while others refer to them.
//
// Every kind in the list (kinds.go) carries a finalizer. A deleted object keeps it until nothing refers to it; whoever
// asks sees in an event who still does. The controllers differ only in the kind, the finalizer and the references, so
// there is one reconciler and a table.
//
// Trigger: objects of the kind, and changes of those that refer to it. Writes: the finalizer, events.
package protection
