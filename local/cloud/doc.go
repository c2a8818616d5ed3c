// Package cloud is the Go client of the local cloud: the wire types of its JSON API (version 1), typed errors and a
// Client with one method per operation.
//
// Create calls are idempotent by name: a second create with the same name (within one account) and the same parameters
// returns the object made by the first; other parameters give AlreadyExists. Delete calls return NoSuchResource if the
// object does not exist, see IgnoreNotFound. Objects belong to the account of the credentials that made them; other
// accounts do not see them, administrators see all.
//
// # What an instance finds at boot
//
// An instance boots from a machine image by running its /sbin/init as process 1, with the network set up. It finds
//
//	/run/hortus-instance/user-data      the user data of CreateInstance or UpdateInstance, unchanged
//	/run/hortus-instance/metadata.json  a Metadata
//	/run/hortus-instance/ca.crt         the certificate authority of API and registry, PEM
//	/var/lib                            a directory of the host's disk, kept over reboots, empty at first
//
// and each volume of CreateInstance at its path. Volumes that are attached later (AttachVolume) appear at
// /mnt/volumes/<ID>. The root file system is kept over reboots too, /run is not. When process 1 exits the instance is
// started again, at once or, if it keeps exiting, after a growing pause. Deletion kills it without notice.
//
// # Changes
//
// Changes are watched, not polled: Client.Events blocks until something happened after a revision, Client.Watch loops.
package cloud
