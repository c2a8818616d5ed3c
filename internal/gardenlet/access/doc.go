// Package access connects the gardenlet to the garden, and renews its client certificate.
//
// [Open] finds the certificate and makes the configuration for clients. [Reconciler] requests another certificate with
// a CertificateSigningRequest when most of its lifetime is over, or when the Seed is annotated with
// gardener.cloud/operation=renew-kubeconfig; it stores the certificate and has [Transport] use it for new requests.
// Nothing is restarted: requests and watches in progress continue on their connections.
package access
