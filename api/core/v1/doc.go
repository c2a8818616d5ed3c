// Package v1 holds the second version of ControllerDeployment, in which the kind is stored.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.gardener.gardener.pkg.apis.core.v1
// +groupName=core.gardener.cloud
package v1
