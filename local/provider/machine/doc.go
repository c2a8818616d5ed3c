// Package machine runs the machine-controller-manager for one Shoot, with the local cloud as its driver.
//
// The library's two halves, the controllers of machine deployments and sets and the controller of machines, usually run
// as two processes. Here they share one process and one set of caches, since a Shoot on a laptop should cost little.
// They are the library's own controllers, unchanged; [Driver] is the only code that knows the cloud, and [wakeups]
// notifies the machine controller at once of changes that it would otherwise notice only after a wait.
package machine
