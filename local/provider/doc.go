// Package provider is the reference extension: it serves every kind of the contract a Shoot needs, on the local cloud.
//
// One process per seed runs the controllers of [AddToManager], each with an actuator from the package of its kind:
// infrastructure (a network), controlplane (the cloud controller and the StorageClass), worker (machines), network
// (pods), operatingsystemconfig (user data), dnsrecord and backup. The parts that run in Shoots are in cloudcontroller,
// networkagent and volume; machine is the controller of machines, one process per Shoot. v1alpha1 has the configuration
// in garden objects.
package provider
