// Package v1alpha1 has the ManagedResource, API group resources.gardener.cloud: a set of objects, kept in Secrets,
// that the resource-manager applies to a cluster and keeps there.
//
// +kubebuilder:object:generate=true
// +groupName=resources.gardener.cloud
package v1alpha1
