// Package openapi holds the OpenAPI definitions of everything that the API server serves. They are generated from
// the comments and markers of the API types, and from those parts of k8s.io/api that the types use.
package openapi
