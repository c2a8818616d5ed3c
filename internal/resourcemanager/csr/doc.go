// Package csr approves the certificate requests of a Shoot's machines: serving and client certificates of kubelets and
// client certificates of node agents, each only for a machine that exists, and for that machine alone. A bootstrap
// token gets the first certificates of the machine that it was made for; a machine that has joined requests others with
// what it has. What is requested for a node without a machine is left to the owner of the Shoot.
package csr
