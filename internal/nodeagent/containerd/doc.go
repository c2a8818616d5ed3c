// Package containerd renders the node agent's changes of a node's container runtime: keys of config.toml, and one
// hosts.toml per registry. It is pure. Settings of users in other keys, in conf.d, or in directories of other
// registries stay unchanged.
package containerd
