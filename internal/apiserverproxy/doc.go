// Package apiserverproxy forwards connections of a node to the address of the API server through the seed's gateway.
//
// The Shoot's `kubernetes` Service points to an address that exists only inside the seed. The proxy puts that address
// on the node's loopback interface, listens there, and forwards each connection to the gateway with a PROXY protocol v2
// header that carries the address as destination. TLS stays between the client and the API server.
package apiserverproxy
