//go:build landscape

package e2e

import (
	"testing"

	"hortus.dev/hortus/test/specs"
)

// TestNetworkPolicySpecs runs Kubernetes' own specs of network policies on a Shoot of two nodes.
func TestNetworkPolicySpecs(t *testing.T) {
	story(t, everything)
	const name = "policies"
	buildSpecs(t, exampleKubernetes)
	applyShootOn(t, "shoot-two-pools.yaml", name, "local-1")
	awaitSucceeded(t, name)
	// Specs of SCTP require a kernel module that not every machine has.
	results := runSpecs(t, name, specRun{focus: "Netpol", skip: "SCTP", side: 2})
	if specs.Count(results)[specs.Passed] == 0 {
		t.Error("there are no specs of network policies")
	}
}
