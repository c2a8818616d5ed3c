// Package lint finds problems with the versions of a CloudProfile before maintenance runs into them.
//
// Check checks one profile and needs no Shoots. Its main part is a search (explore.go) through all versions that any
// Shoot could be on at any time, with the decisions of package maintenance: a version from which there is no update
// path is a dead end, and its Deadline is the last time at which adding a version still prevents that. If Shoots are
// given, they are only counted.
package lint
