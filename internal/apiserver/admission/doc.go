// Package admission gives the admission plugins what their decisions are based on.
//
// Each plugin lies in a package below and decides with functions on the objects it has read. Own kinds are read from
// caches (Objects.Cached) or, where an old answer would do harm, from the server itself (Objects.Live).
package admission
