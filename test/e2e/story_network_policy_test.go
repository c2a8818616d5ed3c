//go:build landscape

package e2e

import "testing"

// TestNetworkPolicySpecs runs Kubernetes' own specs of network policies on a Shoot of two nodes.
func TestNetworkPolicySpecs(t *testing.T) {
	story(t)
	const name = "policies"
	buildSpecs(t)
	applyShootOn(t, "shoot-two-pools.yaml", name, "local-1")
	awaitSucceeded(t, name)
	// Those of SCTP need a module of the kernel that not every machine has.
	runSpecs(t, shootKubeconfig(t, name), specs{focus: "Netpol", skip: "SCTP", side: 2})
}
