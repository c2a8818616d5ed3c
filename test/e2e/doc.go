// Package e2e uses a whole landscape the way people do: through the hortus command, kubectl and the API.
//
// It needs root and the build tag "landscape"; 'make test-landscape' runs it. The tests are one story in order: the
// landscape comes up, Shoots are made, used, broken and deleted, and the landscape goes without a trace.
package e2e
