// Package containerd renders what the node agent changes in a node's container runtime: keys of config.toml, and one
// hosts.toml per registry. It is pure. What users have put into other keys, into conf.d, or into directories of other
// registries stays as it is.
package containerd
