// Package csr approves the certificate requests of a Shoot's nodes: serving certificates of kubelets and client
// certificates of node-agents, each only for a machine that exists. Client certificates of kubelets are approved by
// the Shoot's kube-controller-manager.
package csr
