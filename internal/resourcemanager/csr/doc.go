// Package csr approves the certificate requests of a Shoot's nodes: serving and client certificates of kubelets and client
// certificates of node agents, each only for a machine that exists, and for that machine alone. A bootstrap token gets the
// first certificates of the machine that it was made for; a machine that has joined asks with what it has.
package csr
