// Package ownership records which seed runs a control plane, in a Lease of the garden. Each time another seed takes
// over, the epoch of the Lease grows by one. The backups of etcd carry the epoch, and the bucket refuses an older one.
// The seed that the status of the Shoot names takes the Lease, before it starts anything that could write.
//
// While a control plane moves, both seeds communicate through annotations of the Lease: the source calls the
// destination, which answers when it is prepared. See docs/controllers/migration.md.
package ownership
