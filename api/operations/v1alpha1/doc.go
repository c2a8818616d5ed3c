// Package v1alpha1 holds the kind Bastion of the group operations.gardener.cloud: temporary SSH access to a Shoot's
// network.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.gardener.gardener.pkg.apis.operations.v1alpha1
// +groupName=operations.gardener.cloud
package v1alpha1
