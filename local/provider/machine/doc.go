// Package machine runs the controller of single machines of one Shoot, with the local cloud as its driver, as a sidecar
// of the machine-controller-manager.
//
// It is the library's own controller, unchanged; [Driver] is the only code that knows the cloud, and [wakeups] notifies
// the controller at once of changes that it would otherwise notice only after a wait.
package machine
