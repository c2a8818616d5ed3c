// Package change computes the changes on a node from one OperatingSystemConfig to the next.
//
// [Compute] is pure. Its result is kept in a file while the changes are made one by one, so that a node agent that is
// stopped in the middle continues where it was; see [Changes.Touched] for changes of the desired configuration in the
// meantime.
package change
