// Package resourcemanager is the agent that keeps the objects of ManagedResources applied in a cluster, and does small
// jobs for that cluster's control plane.
//
// It reads from a source cluster (the seed) and writes to a target cluster (a Shoot, or the seed itself):
//
//	managedresource  applies the objects of ManagedResources and reports their state
//	token            keeps ServiceAccount tokens of the target in Secrets of the source
//	node             removes the not-ready taint from nodes whose critical components run; delays the node agents
//	csr              approves certificate requests of kubelets and node agents
//	machineaccess    gives each machine the permissions for its own objects
//	garbage          deletes immutable ConfigMaps and Secrets that are no longer referenced
//	networkpolicy    keeps the NetworkPolicies of a seed
//	webhook          serves admission webhooks for pods and workloads
//
// Each is a package of its own; controllers.go has the list. Package health decides whether objects are healthy.
package resourcemanager
