// Package networkagent is the pod network of type bridge: on every machine it writes the CNI configuration for the
// machine's own part of the pod network, keeps a route to every other machine's part, and masquerades traffic that
// leaves the pod network.
//
// Machines of a Shoot are neighbours in one cloud network, so plain routes are enough and nothing is encapsulated. The
// desired state of a machine is a pure function of all Nodes, [Decide]; [System] applies it.
//
// The package policy below it enforces NetworkPolicies on the machine, for pod networks of other providers too. The CNI
// plugin of the package hook makes a new pod wait until its policies are in force.
package networkagent
