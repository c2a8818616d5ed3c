// Package seed looks after the life of Seeds from the garden's side.
//
// The gardenlet renews a Lease for its Seed. When it stops, Lifecycle sets the Seed's condition GardenletReady to
// Unknown, so that nothing is scheduled there and users see why nothing happens; when it stays away, the conditions of
// its Shoots follow. Lifecycle also keeps the namespace seed-<name>, in which the gardenlet and its extensions have
// their garden objects. BackupBuckets sums up the state of a Seed's buckets.
//
// Trigger: Seeds, their Leases and BackupBuckets. Writes: conditions of Seeds and of lost Shoots, the namespace.
package seed
