// Package registry turns the description of a kind into the storage that the generic API server serves.
//
// A Kind defines, with functions on the concrete type, what a request may change, when the generation is incremented,
// what is valid, which fields can be selected and what a table shows. Each kind has a package below this one with a
// function that returns its Kind. Everything that all kinds share is in this package.
package registry
