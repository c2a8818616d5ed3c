// Package etcdmember runs one etcd: it makes the data directory ready, starts etcd as a child process, and restarts it
// in place after changes that etcd does not read itself. Clients that connect meanwhile wait instead of being refused.
//
//	fence          whether an etcd may run, so that no two seeds run that of one control plane (pure)
//	cluster        how a member becomes part of its cluster
//	configuration  the configuration of etcd that may change while the process runs (pure)
//	command        `hortus etcd run`
package etcdmember
