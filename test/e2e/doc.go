// Package e2e uses a whole landscape as people do: with the hortus command, kubectl and the API.
//
// It needs root and the build tag "landscape"; 'make test-landscape' runs it. TestLandscape is the story of a
// landscape, from its creation to its complete removal. The other stories share a landscape, and each can be run alone.
// A story first declares which part of the landscape it uses. Stories that use everything run alone; then the others
// run three at a time, those that use the second seed one after another.
package e2e
