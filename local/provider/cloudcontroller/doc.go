// Package cloudcontroller connects a cluster whose nodes are instances of the local cloud with that cloud: Services of
// type LoadBalancer get a load balancer to the node ports of all ready nodes, and Nodes get their provider ID,
// addresses and zone.
//
// The same process serves seeds and Shoots. Load balancers carry the name of the cluster as a tag, so that clusters of
// one account do not touch each other's.
package cloudcontroller
