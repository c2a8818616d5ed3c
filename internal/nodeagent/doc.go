// Package nodeagent is the part of Hortus that runs on every node of a Shoot: it keeps the OperatingSystemConfig of
// the node's pool applied, without a new machine as long as that is possible.
//
// The pieces, in the order a configuration passes them: [Reconciler] reads it from its Secret and decides when to act;
// package change computes what differs from the last one; [Applier] works that off and remembers how far it got;
// package units starts and stops services; [ImageExtractor] takes programs out of images. What must not happen under
// running pods waits until the machine controller has drained the node ([InPlaceUpdater]).
//
// Beside that the node agent gets and renews its own access ([Access]), shows by a Lease that it lives, restarts
// units on request, and restarts kubelet and containerd when they no longer answer ([HealthChecker]).
package nodeagent
