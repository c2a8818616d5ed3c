// Package vpnseedserver renders the seed's end of the tunnel into a Shoot: the server that the Shoot's client connects to
// through the gateway, and that the API server asks for connections to nodes, pods and services.
package vpnseedserver
