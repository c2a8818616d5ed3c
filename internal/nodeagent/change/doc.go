// Package change computes what has to be done on a node to get from one OperatingSystemConfig to the next.
//
// [Compute] is pure. Its result is kept in a file while it is being worked off, piece by piece, so that a node agent
// that is stopped in the middle goes on where it was; see [Changes.Touched] for what happens when the wanted
// configuration changes meanwhile.
package change
