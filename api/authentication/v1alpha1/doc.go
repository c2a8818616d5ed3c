// Package v1alpha1 holds the requests for kubeconfigs, the bodies of two subresources of Shoots.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.gardener.gardener.pkg.apis.authentication.v1alpha1
// +groupName=authentication.gardener.cloud
package v1alpha1
