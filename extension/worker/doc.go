// Package worker is an actuator for kind Worker that works for any provider whose machines are run by the
// machine-controller-manager: it turns pools into MachineDeployments and MachineClasses, one per zone, and tells when
// all machines are there.
//
// A provider adds what only it knows with the interface [Provider]. What is wanted is computed by pure functions
// (spread, replicas, render) and whether it has been reached by another (progress); [Actuator] reads, applies and
// deletes.
package worker
