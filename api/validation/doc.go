// Package validation finds for every kind of the garden's API the functions beside its type: defaults, static
// validation and warnings. It is how programs check manifests without a server; the API server gives the same answers.
//
// All functions are pure: what they depend on besides the objects stands in Options.
package validation
