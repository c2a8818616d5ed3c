// Package registry turns the description of a kind into what the generic API server serves.
//
// A Kind says, with functions on the concrete type, what a request may touch, when the generation rises, what is
// valid, which fields can be selected and what a table shows. Each kind has its own package below, with a function
// that returns its Kind. Everything that all kinds share lies here.
package registry
