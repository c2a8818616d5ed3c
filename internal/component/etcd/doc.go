// Package etcd renders the etcd of one control plane: one or three members with TLS and their data on volumes.
// `hortus etcd run` is the process of a pod; it runs etcd, restores it, takes its backups, and joins other members.
package etcd
