// Package stale finds Projects that nobody uses, announces their end in their status, and deletes them.
//
// decide is the pure decision from what was read. Reconciler reads and writes; Activity notes in a Project's status
// when something happened in its namespace, so that objects count that come and go between two looks.
package stale
