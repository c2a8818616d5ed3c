// Package kubeapiserver renders the API server of one Shoot: its Service, configuration and Deployment.
//
// The Service's cluster IP is also the address that the server advertises, so that the Shoot's `kubernetes` Service
// points to an address that stays while pods are replaced. With workers, connections to nodes, pods and services of the
// Shoot leave through the tunnel (egress selector "cluster").
package kubeapiserver
