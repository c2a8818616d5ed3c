// Package vpnshoot renders the Shoot's end of the tunnel: a client that connects to the seed's gateway and dials nodes,
// pods and services for the API server.
package vpnshoot
