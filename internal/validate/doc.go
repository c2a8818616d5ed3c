// Package validate is the command `hortus validate`: it checks manifests without a server and says everything that is
// wrong with all of them at once.
//
// Manifests are read strictly (package manifest), get their defaults, and are checked by the functions beside the
// types, which the API server calls too (check.go). With the CloudProfile among the manifests, versions and machine
// images are completed and checked as admission does; with ConfigMaps among them, the files of Shoots' API servers.
// With --old, the change is computed as kubectl apply does and checked as an update (update.go). What needs other
// objects of the garden is left to the server.
package validate
