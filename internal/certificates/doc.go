// Package certificates is the table of every certificate and signing key of the product and of the landscape: its
// signer, its lifetime and its renewal. docs/certificates.md is generated from it.
//
// The table is written by hand. Tests next to the code that issues certificates compare names, signers and lifetimes
// with it: for control planes in internal/gardenlet/shoot/steps, for the landscape in local/landscape. Further tests
// move a clock and follow the issued certificates with a Watch; simulated_test.go lists these tests, and the
// certificates they do not cover.
package certificates
