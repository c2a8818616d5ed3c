// Package gardenlet installs gardenlets from the garden: the first one of a Seed that is not registered, and another
// one on request, into the cluster whose kubeconfig a Gardenlet names. From then on the gardenlet updates itself.
//
// Trigger: Gardenlets, and Seeds that come or go. Writes: the objects of the gardenlet's chart in the cluster; in the
// garden a token for its first certificate, the condition GardenletReconciled while the Seed is not registered or the
// operation force-redeploy fails, and the removal of that operation.
package gardenlet
