// Package components builds the real programs a cluster is made of (Kubernetes, etcd, containerd, runc, CNI plugins,
// CoreDNS, pause) from their public Go modules, for places that cannot pull the public images.
//
// The table ([All]) lists one [Component] per program set and version. Each has a wrapper module in a folder below this
// one that pins every library; where possible to the version the main module uses, so that both share Go's build cache.
// A [Builder] turns components into files <artifacts>/bin/<name>/<version>/<program> and writes a stamp next to them.
// As long as wrapper module, flags and Go version stay the same, the stamp matches and nothing is built.
package components
