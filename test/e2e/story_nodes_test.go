//go:build landscape

package e2e

import "testing"

// TestNodesOfTwoPools uses the nodes of a Shoot of two pools as its owner would, and as an attacker who controls one of
// them would.
func TestNodesOfTwoPools(t *testing.T) {
	story(t, firstSeed)
	newShoot(t, "shoot-two-pools.yaml", "two")
	step(t, "mirrors and runtimes that users add to nodes are used", checkUserContainerd)
	step(t, "pods run in gVisor on the node of the pool that requests it, which stays", checkContainerRuntime)
	step(t, "root on a node cannot access other nodes", checkRootedNode)
	step(t, "one change rolls one pool with surge and keeps the node of the other", checkRollingUpdate)
	step(t, "a pool with manual in-place updates waits for its user, but its Shoot does not", checkUpdateByHand)
	step(t, "nodes that a rotation of CAs has not replaced yet are reachable", checkRotationLeavesNodes)
}
