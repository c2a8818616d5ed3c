// Package kube holds what every controller does with the Kubernetes API: server-side apply that stores the answer, one
// merge patch of a status, finalizers, conditions of core objects, and the readiness of workloads.
//
// Functions take the client of the cluster they act on; none of them waits, retries or caches.
package kube
