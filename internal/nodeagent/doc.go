// Package nodeagent is the part of Hortus that runs on every node of a Shoot: it keeps the OperatingSystemConfig of
// the node's pool applied, without a new machine as long as that is possible.
//
// The pieces, in the order a configuration passes them: [Reconciler] reads it from its Secret and decides when to act;
// package change computes the differences from the last one; [Applier] applies them and records its progress; package
// units starts and stops services; [ImageExtractor] takes programs out of images. Changes that must not be made under
// running pods wait until the machine controller has drained the node ([InPlaceUpdater]).
//
// In addition, the node agent obtains and renews its own access ([Access]), renews a Lease as its heartbeat, restarts
// units on request, and restarts kubelet and containerd when they no longer answer ([HealthChecker]).
package nodeagent
