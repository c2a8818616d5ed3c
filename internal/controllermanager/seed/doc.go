// Package seed has the controllers for the lifecycle of Seeds in the garden.
//
// The gardenlet renews a Lease for its Seed. When it stops, Lifecycle sets the Seed's condition GardenletReady to
// Unknown: nothing is scheduled there any more, and users see the reason. If it stays Unknown for five minutes, the
// conditions of the Seed's Shoots become Unknown, too. Lifecycle also maintains the namespace seed-<name>, in which the
// gardenlet and its extensions have their garden objects. BackupBuckets summarizes the state of a Seed's buckets.
//
// Trigger: Seeds, their Leases and BackupBuckets. Writes: conditions of Seeds and of Shoots on Seeds without heartbeat,
// the namespace.
package seed
