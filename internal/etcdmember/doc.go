// Package etcdmember runs one etcd: it makes the data directory ready, starts etcd as a child process, and restarts it
// in place after changes that etcd does not read itself. Clients that connect meanwhile wait instead of being refused.
//
//	configuration  the configuration of etcd that may change while the process runs (pure)
//	command        `hortus etcd run`
package etcdmember
