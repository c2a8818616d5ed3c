// Package managedseed installs gardenlets in Shoots that are to become Seeds, as ManagedSeeds request.
//
// The gardenlet of the Seed that runs the Shoot's control plane requests the first certificate of the new gardenlet and
// passes the chart "gardenlet" to the Shoot's resource-manager. The new gardenlet registers and maintains its Seed, and
// renews its certificate itself. When the ManagedSeed is deleted, the Seed is deleted first, by its own gardenlet, and
// the gardenlet afterwards.
package managedseed
