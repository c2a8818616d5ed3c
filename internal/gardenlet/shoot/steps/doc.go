// Package steps has the flows of a Shoot: one file per step with its edges, its skip rule, what it ensures and what it
// removes. flows.go combines the steps; testdata/plan shows the plans of typical Shoots.
//
// A step's functions get only the parts of the [Scope] that they use: [Values] has what is known when a pass begins;
// [SeedNamespace], [GardenNamespace] and [ShootCluster] are where they read and write; [Secrets], [Extensions] and
// [Etcds] have what they need of credentials, extensions and etcd. Results are passed on through objects in
// the API, so that any pass may be the first one after a restart.
package steps
