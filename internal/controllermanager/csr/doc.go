// Package csr decides about certificates that gardenlets ask for in the garden.
//
// Trigger: open CertificateSigningRequests of the signer kubernetes.io/kube-apiserver-client for the user or the group
// of gardenlets. Reads: whether the Seed exists. Writes: the approval. kube-controller-manager signs what is approved.
//
// A gardenlet only renews: whoever has the certificate of a seed gets another one for the same seed. The first
// certificate comes from the operator.
package csr
