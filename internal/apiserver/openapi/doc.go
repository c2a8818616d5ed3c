// Package openapi holds the OpenAPI definitions of all types that the API server serves. They are generated from the
// comments and markers of the API types, and from the parts of k8s.io/api that the types use.
package openapi
