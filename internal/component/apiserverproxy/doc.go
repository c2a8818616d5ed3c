// Package apiserverproxy renders the proxy on every node that stands in for the API server's address, to which the
// Shoot's `kubernetes` Service points.
package apiserverproxy
