// Package machinecontrol runs the controllers of Gardener's machine-controller-manager for one Shoot.
//
// The library has two halves. This package runs the one that is the same for all providers, the controllers of machine
// deployments and sets. The other half creates and deletes single machines with the driver of a provider. Its process
// is a sidecar that the provider adds to the Deployment by a webhook; [Process] is what both processes have in common.
package machinecontrol
