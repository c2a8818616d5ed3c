// Package upgrade finds what another version of Hortus does to Shoots that exist: which pods of their control planes
// it replaces, and which worker pools it rolls. It compares what the gardenlets of both versions write for the same
// Shoots. It is for tests, which write and check the notes of releases.
package upgrade
