// Package v1alpha1 holds what the subresource backups of Shoots answers. It is our own addition.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.hortus.api.backup.v1alpha1
// +groupName=backup.hortus.dev
package v1alpha1
