// Package clouddaemon is the daemon of the local cloud, which `hortus cloud serve` runs.
//
// Every change of the cloud is first written to a store (bbolt, mirrored in memory) and then carried out by reconcilers
// that may stop at any point and start over: the record is the intent, the reconciler makes the host agree. Anything of
// the cloud on the host without a record is a leftover and is removed. So a kill -9 loses nothing.
//
//	api.go, routes.go        HTTP: credentials, faults, routes
//	instances.go ...         operations, one file per kind; they only read and write the store
//	store.go, table.go       records, name index, revision and events
//	ipam.go, quota.go, faults.go, decide.go   pure decisions
//	reconcile.go, reconcile_instance.go ...   carry records out through a driver (instances) and a fabric (networks)
//	s3.go, s3_backend.go, s3_uploads.go       the S3 API of the same buckets, on the same port
//
// Drivers (package driver and below) run instances: container runs them for real on the host's containerd, simulated
// only pretends. Fabrics (package fabric and below) make networks: linux from network namespaces and bridges, the plain
// one does nothing. Package s3 implements what the S3 protocol needs besides its library. Package proxy carries load
// balancer traffic, nameserver answers DNS, registry serves images.
package clouddaemon
