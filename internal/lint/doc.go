// Package lint finds out what is wrong with the versions of a CloudProfile before a maintenance does.
//
// Check looks at one profile and needs no Shoots. Its main part is a search (explore.go) through all the versions that
// any Shoot could be on at any time, with the decisions of package maintenance: a version from which there is no way
// on is a dead end, and its Deadline is the last moment at which adding a version still prevents that. Shoots that are
// given as well are only counted.
package lint
