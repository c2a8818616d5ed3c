// Package kube holds the operations on the Kubernetes API that all controllers share: server-side apply that stores the
// response, one merge patch of a status, finalizers, conditions of core objects, and the readiness of workloads.
//
// Functions take the client of the cluster they act on. Only [WaitForAPI] waits or retries, and only [ApplyCache],
// [NamespaceView] and [Versions] keep state between calls.
package kube
