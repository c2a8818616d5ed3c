// Package shootsystem renders what every Shoot gets besides running components: roles of users, nodes and controllers,
// and ConfigMaps that describe the cluster.
package shootsystem
