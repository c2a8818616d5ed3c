// Package certificates is the table of every certificate and signing key in the product: who signs it, how long it is
// valid and what becomes of it before its end. docs/certificates.md is made from it.
//
// The table is written by hand. Tests next to the code that issues compare names, signers and lives with it: of control
// planes in internal/gardenlet/shoot/steps, of the landscape in landscape. Further tests move a clock over what is
// issued and follow it with a Watch; simulated_test.go lists them, and which certificates they leave out.
package certificates
