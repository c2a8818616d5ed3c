// Package cleanup deletes what users have left in a Shoot before its machines go, in four ordered steps, so that load
// balancers and volumes that belong to it do not stay behind at the provider.
//
// What to delete, when to give up on graceful deletion and what to leave alone is a table and pure functions; Run makes
// one pass over one step and reports what is left.
package cleanup
