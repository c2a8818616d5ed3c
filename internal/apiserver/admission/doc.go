// Package admission provides admission plugins with the objects that they read.
//
// Each plugin is a package below, and decides with pure functions on the objects that it has read. Objects of our own
// kinds are read from caches (Objects.Cached) or, where stale data would do harm, from the API server (Objects.Live).
package admission
