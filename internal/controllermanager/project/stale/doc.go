// Package stale finds unused Projects, announces their deletion in their status, and deletes them.
//
// decide is the pure decision. Reconciler reads and writes; Activity records activities in a Project's namespace in its
// status, so that objects count that exist only between two checks.
package stale
