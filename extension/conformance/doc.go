// Package conformance checks an extension against the operation contract, through the API alone.
//
// The caller provides a client for a cluster that has the CustomResourceDefinitions of the contract, and a function
// that returns a valid object. The extension may run anywhere: as a process of its own, or in the test, step by step.
// Checks that need to observe or control the actuator run only if the caller provides a [Probe].
package conformance
