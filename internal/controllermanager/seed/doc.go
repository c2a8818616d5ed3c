// Package seed looks after the life of Seeds from the garden's side.
//
// The gardenlet renews a Lease for its Seed. When it stops, Lifecycle sets the Seed's condition GardenletReady to Unknown, so
// that nothing is scheduled there and users see why nothing happens. It also keeps the namespace seed-<name>, in which the
// gardenlet and its extensions have their garden objects.
//
// Trigger: Seeds and their Leases. Writes: conditions of the Seed, the namespace.
package seed
