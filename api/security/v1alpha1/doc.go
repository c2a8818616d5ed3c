// Package v1alpha1 holds the kinds of the group security.gardener.cloud: what gives Shoots access to infrastructure.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.gardener.gardener.pkg.apis.security.v1alpha1
// +groupName=security.gardener.cloud
package v1alpha1
