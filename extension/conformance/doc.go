// Package conformance checks an extension against the operation contract, through the API alone.
//
// The caller gives a client of a cluster that has the definitions of the contract, and a function that makes a valid
// object. The extension may run anywhere: as a process of its own, or in the test, stepped by hand. Checks that need to
// see or steer what the actuator does run only if the caller lends a [Probe].
package conformance
