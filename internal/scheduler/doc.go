// Package scheduler chooses the seed that runs a Shoot's control plane.
//
// Decide is the whole choice as a pure function: from a Shoot, its CloudProfile, the distances between regions and the
// seeds with their load to the chosen seed and a verdict on every seed. The controller keeps the load per seed up to
// date from watch events, so that one decision costs nothing that grows with the number of Shoots. 'hortus schedule'
// calls the same function for a live garden or for manifests.
package scheduler
