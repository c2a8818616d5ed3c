// Package e2e uses a whole landscape the way people do: through the hortus command, kubectl and the API.
//
// It needs root and the build tag "landscape"; 'make test-landscape' runs it. TestLandscape is the story of a
// landscape, from the command that brings it up to the one that leaves no trace. The other stories share one, and each
// can be run alone. A story says first which part of the landscape it uses: those that use everything run alone, then
// the others three at a time, those that use the second seed one after another.
package e2e
