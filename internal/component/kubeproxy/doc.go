// Package kubeproxy renders kube-proxy in a Shoot: one DaemonSet per worker pool, since pools may run different
// versions.
package kubeproxy
