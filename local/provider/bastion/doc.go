// Package bastion acts on Bastions: an instance in the network of the Shoot, which forwards SSH connections to the
// Shoot's nodes, and a load balancer by which the prefixes of spec.ingress reach it. Both are found again by name.
package bastion
