// Package worker is an actuator for kind Worker. It works for any provider whose machines are managed by the
// machine-controller-manager: it turns pools into MachineDeployments and MachineClasses, one per zone, and reports when
// all machines are ready.
//
// A provider adds its specific part with the interface [Provider]. Pure functions compute the desired objects (spread,
// replicas, render) and whether they have been reached (progress); [Actuator] reads, applies and deletes.
package worker
