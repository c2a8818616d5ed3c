// Package gardenlet is the agent of a seed: it registers the Seed, installs the extensions that the garden requires
// there, and reconciles the Shoots whose control planes are assigned to it.
//
// All decisions about Shoots are in the garden; everything that runs for them is in the seed. The gardenlet connects to
// both, and to the API servers of the Shoots; no other component connects to the gardenlet.
package gardenlet
