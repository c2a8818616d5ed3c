// Package api is the root of the module that holds the API types of Hortus.
//
// It imports apimachinery and k8s.io/api only, so that authors of extensions and clients pull in little.
package api
