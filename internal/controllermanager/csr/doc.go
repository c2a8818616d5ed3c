// Package csr approves or denies the certificates that gardenlets request in the garden.
//
// Trigger: pending CertificateSigningRequests of the signer kubernetes.io/kube-apiserver-client for the user or the
// group of gardenlets. Reads: the Seed, the bootstrap token, ManagedSeeds and their Shoots. Writes: the approval, and
// the request that used the token. kube-controller-manager signs approved requests.
//
// A gardenlet with a certificate for its Seed gets further ones for the same Seed. It gets the first one with a
// bootstrap token for the Seed, which can be used once, or from the operator. The first certificate for the gardenlet
// of a ManagedSeed is requested by the gardenlet of the Seed that has the control plane of its Shoot.
package csr
