// Package machineaccess gives each machine of a Shoot the permissions for its own objects: its node agent may change
// its own Node and read the configuration of its own pool, and its kubelet may label its Node as belonging to that
// pool.
//
// The Machine in the seed determines the node and the pool of a machine. Nothing that a node claims about itself
// counts.
package machineaccess
