// Package gardencertificate renews the certificates of the garden's API server and etcd that the chart has generated.
//
// They are in the Secret hortus-certificates, which the pods read again when it changes. The certificate authority in
// the same Secret is valid for ten years and not renewed: delete the Secret and upgrade the release to generate a new
// authority and new certificates. A Secret without the private key of its authority is not changed.
package gardencertificate
