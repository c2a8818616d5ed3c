// Package validation maps every kind of the garden's API to the functions of its type: defaults, static
// validation and warnings. It is how programs check manifests without a server; the API server gives the same answers.
//
// All functions are pure: all inputs other than the objects are in Options.
package validation
