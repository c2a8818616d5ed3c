// Package steps has the flows of a Shoot: one file per step with its edges, its skip rule, what it ensures and what it
// removes. plan.go puts the steps together; testdata/plan shows the plans of typical Shoots.
//
// A step's functions take the parts of the [Scope] that they use, and nothing else: [Values] are what is known when a
// pass begins, [Seed], [Garden] and [Cluster] are where they read and write, [Secrets], [Extensions] and [Etcds] what
// they need of credentials, extensions and etcd. Results pass on through objects in the API, so any pass may be the
// first one after a restart.
package steps
