// Package etcdmember runs one etcd: it makes the data directory ready, starts etcd as a child process, and restarts it
// in place when something has changed that etcd does not read again. Clients that connect meanwhile wait instead of
// being refused.
//
//	configuration  what etcd runs with and may change while the process runs (pure)
//	command        `hortus etcd run`
package etcdmember
