// Package v1alpha1 holds the kind ManagedSeed of the group seedmanagement.gardener.cloud: a Shoot that becomes a Seed.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.gardener.gardener.pkg.apis.seedmanagement.v1alpha1
// +groupName=seedmanagement.gardener.cloud
package v1alpha1
