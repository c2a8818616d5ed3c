// Package csr approves or denies the certificates that gardenlets request in the garden.
//
// Trigger: pending CertificateSigningRequests of the signer kubernetes.io/kube-apiserver-client for the user or the
// group of gardenlets. Reads: the Seed, or the bootstrap token. Writes: the approval, and the request that used the
// token. kube-controller-manager signs approved requests.
//
// A gardenlet with a certificate for its Seed gets further ones for the same Seed. It gets the first one with a
// bootstrap token for the Seed, which can be used once, or from the operator.
package csr
