// Package steps has the flows of a Shoot: one file per step with its edges, its skip rule, what it ensures and what it
// removes. plan.go puts the steps together; testdata/plan shows the plans of typical Shoots.
//
// Steps read and write through the clients of their Scope and pass results on through objects in the API, so any pass
// may be the first one after a restart.
package steps
