// Package osc renders the configuration of the machines of a worker pool: the contents of its two
// OperatingSystemConfigs.
//
// [Provision] becomes the user data of new machines and does no more than install and start the node agent.
// [Reconcile] is what the node agent then applies, now and after each change: kubelet, container runtime, root CAs,
// and the node agent itself. [Access] lists the permissions that node agents and joining kubelets need in the cluster.
//
// All of it is pure; golden files in testdata show the result.
package osc
