// Package resourcemanager is the agent that keeps the objects of ManagedResources in a cluster, and does small jobs for
// that cluster's control plane.
//
// It reads from a source cluster (the seed) and acts on a target cluster (a Shoot, or the seed itself):
//
//	managedresource  applies what ManagedResources want and tells how it is
//	token            keeps ServiceAccount tokens of the target in Secrets of the source
//	node             takes the not-ready taint off nodes whose critical components run; paces the node-agents
//	csr              approves certificate requests of kubelets and node agents
//	machineaccess    gives each machine the rights that are its own
//	garbage          deletes immutable ConfigMaps and Secrets nothing refers to any more
//
// Each is a package of its own; command.go has the list.
package resourcemanager
