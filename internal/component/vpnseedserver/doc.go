// Package vpnseedserver renders the tunnel server of a Shoot into the seed: the Shoot's client connects to it through
// the gateway, and the API server connects through it to nodes, pods and services, and to the outside.
package vpnseedserver
