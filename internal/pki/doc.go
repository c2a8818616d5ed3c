// Package pki creates the certificates and kubeconfigs with which the components of Hortus authenticate to each other.
//
// A [CA] signs; [CA.Issue] creates a key and a certificate for a server, a client or both; [Kubeconfig] writes the file
// with which a client accesses an API server. Keys are ECDSA P-256: small, fast to generate, and accepted by every
// Kubernetes component, also for service account tokens ([NewSigningKey]).
//
// The time comes from the given clock. Keys and serial numbers come from crypto/rand; a test that needs reproducible
// output uses testing/cryptotest.
package pki
