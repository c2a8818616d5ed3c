// Package apiserver is the aggregated API server of the garden: it serves Shoots, Seeds, CloudProfiles and related
// kinds next to the garden's own kube-apiserver.
//
// Types exist once, as served, and are registered a second time as the internal version, because requests convert
// through it (scheme.go). A package below registry/ per kind defines what a request may change, when the generation is
// incremented, and what a table shows; checks that need only the object are next to the type. Checks that read other
// objects are admission plugins below admission/. Nothing is imported from kube-apiserver itself.
package apiserver
