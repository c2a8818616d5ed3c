// Package etcdtest runs the real etcd for tests and records what it acknowledges.
package etcdtest
