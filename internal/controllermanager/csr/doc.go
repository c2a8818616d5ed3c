// Package csr decides about certificates that gardenlets ask for in the garden.
//
// Trigger: open CertificateSigningRequests of the signer kubernetes.io/kube-apiserver-client for the user or the group
// of gardenlets. Reads: whether the Seed exists, or the bootstrap token. Writes: the approval, and who has used the
// token. kube-controller-manager signs what is approved.
//
// Whoever has the certificate of a seed gets another one for the same seed. The first certificate is for whoever has a
// bootstrap token for the seed, once, or comes from the operator.
package csr
