// Package scheduler chooses the Seed that runs a Shoot's control plane.
//
// Decide is the whole choice as a pure function: its input is a Shoot, its CloudProfile, the distances between regions,
// and the Seeds with the number of their Shoots; its output is the chosen Seed and a verdict on every Seed. The
// controller keeps the numbers of Shoots up to date from watch events, so that the cost of a decision does not grow
// with the number of Shoots. 'hortus schedule' calls the same function for a live garden or for manifests.
package scheduler
