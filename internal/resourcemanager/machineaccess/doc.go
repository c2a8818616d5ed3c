// Package machineaccess gives each machine of a Shoot the rights that are its own: its node agent changes its own Node
// and reads the configuration of its own pool, and its kubelet may say that its Node belongs to that pool.
//
// The Machine in the seed says which node and which pool a machine has. Nothing that a node says about itself counts.
package machineaccess
