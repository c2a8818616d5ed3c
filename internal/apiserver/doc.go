// Package apiserver is the aggregated API server of the garden: it serves Shoots, Seeds, CloudProfiles and their
// relatives next to the garden's own kube-apiserver.
//
// Types exist once, as served, and are registered a second time as the internal version, because requests convert
// through it (scheme.go). Per kind, a package below registry/ says what a request may touch, when the generation
// rises, and what a table shows; the checks that need nothing but the object lie beside the type. Checks that read
// other objects are the plugins below admission/. Nothing is imported from kube-apiserver itself.
package apiserver
