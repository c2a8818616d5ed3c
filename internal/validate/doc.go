// Package validate is the command `hortus validate`: it checks manifests without a server and reports all problems of
// all manifests at once.
//
// Manifests are decoded strictly (package manifest), defaulted, and validated by the functions next to the types, which
// the API server calls, too (check.go). If the CloudProfile is among the manifests, versions and machine images are
// completed and checked as in admission; if ConfigMaps are, the files of Shoots' API servers are checked. With --old,
// the change is computed as kubectl apply does and validated as an update (update.go). The server checks everything
// that needs other objects of the garden.
package validate
