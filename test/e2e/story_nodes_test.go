//go:build landscape

package e2e

import "testing"

// TestNodesOfTwoPools uses the nodes of a Shoot of two pools as its owner would, and as somebody would who has broken
// into one.
func TestNodesOfTwoPools(t *testing.T) {
	story(t, firstSeed)
	newShoot(t, "shoot-two-pools.yaml", "two")
	step(t, "mirrors and runtimes that users bring to nodes are used", checkUserContainerd)
	step(t, "who is root on a node gets no further", checkRootedNode)
	step(t, "one change rolls one pool with surge and leaves the other's node", checkRollingUpdate)
	step(t, "a pool updated in place by hand waits for its user, its Shoot does not", checkUpdateByHand)
	step(t, "nodes that a rotation of CAs leaves for later can be reached", checkRotationLeavesNodes)
}
