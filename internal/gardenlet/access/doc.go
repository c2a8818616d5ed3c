// Package access is how the gardenlet reaches the garden, and renews the certificate by which it does.
//
// [Open] finds the certificate and makes the configuration for clients. [Reconciler] requests another certificate by a
// CertificateSigningRequest when most of its life is over, or when the Seed is annotated with
// gardener.cloud/operation=renew-kubeconfig; stores it; and has [Transport] use it for what is sent from then on.
// Nothing is restarted: requests and watches that are under way end as they would have.
package access
