// Package shootsystem renders the objects in every Shoot besides running components: roles of users, nodes and
// controllers, and ConfigMaps that describe the cluster.
package shootsystem
