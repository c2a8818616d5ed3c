// Package gardenlet is the agent of a seed: it registers the Seed, installs the extensions that the garden wants there,
// and drives the Shoots whose control planes belong on it.
//
// Everything that is decided about Shoots is in the garden, everything that runs for them in the seed. The gardenlet
// connects to both and to the API servers of the Shoots; nobody connects to it.
package gardenlet
