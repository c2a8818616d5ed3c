// Package gardencertificate renews the certificates of the garden's API server and etcd, if the chart has made them.
//
// They are in the Secret hortus-certificates, from which the pods read them anew when they change. The certificate
// authority is in the same Secret and stays; its ten years end by hand: whoever deletes the Secret and upgrades the
// release gets everything anew. A Secret without the key of its authority is not touched.
package gardencertificate
