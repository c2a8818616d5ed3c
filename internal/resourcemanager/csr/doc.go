// Package csr approves CertificateSigningRequests of a Shoot's machines: serving and client certificates of kubelets,
// and client certificates of node agents. It approves a request only if the machine exists, and only for that machine.
// A bootstrap token gets the first certificates of the machine for which it was created; a machine that has joined
// requests further certificates with its current ones. Requests for a node without a machine are left to the owner of
// the Shoot.
package csr
