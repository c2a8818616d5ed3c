// Package etcdbackup is the client of the process that runs an etcd, keeps backups of it in an object store, and
// restores them before etcd starts: `hortus etcd run`, see package etcdmember.
//
//	chain     evaluates backups by their names (pure)
//	archive   the format of an object
//	store     object stores and their credentials
//	snapshot  takes full snapshots and deltas
//	restore   makes a data directory ready before etcd starts
//	verify    restores backups as a test
//	maintain  keeps the database file small, resolves NOSPACE alarms
//	service   the HTTPS endpoint that this package is the client of
//	keeper    all of these for one running etcd
//	command   `hortus etcd-backup`: looks at backups
package etcdbackup
