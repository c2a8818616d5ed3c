// Package etcd renders the etcd of one control plane: one member with TLS on its client port and its data on a volume.
// `hortus etcd run` is the process of the pod; it runs etcd, restores it and takes its backups.
//
// Peers listen on the loopback address only, since there are none.
package etcd
