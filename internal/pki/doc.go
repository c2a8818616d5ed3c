// Package pki makes the certificates and kubeconfigs that the parts of Hortus show each other.
//
// A [CA] signs; [CA.Issue] makes a key and a certificate for a server, a client or both; [Kubeconfig] writes the
// file a client needs to reach an API server. Keys are ECDSA P-256: small, fast to make, and accepted by every
// Kubernetes component, also for service account tokens ([NewSigningKey]).
//
// Time comes from the clock handed in. Keys and serial numbers come from crypto/rand; a test that needs the same
// output twice uses testing/cryptotest.
package pki
