// Package v1beta1 holds the kinds of the group core.gardener.cloud in the version that the garden's API server
// serves and stores: the cluster owner's Shoot, the operator's CloudProfile and Seed, and what connects them.
//
// The types exist once, as they are served. The files of a kind also contain its defaults (SetDefaults<Kind>) and its
// static validation (Validate<Kind>), pure functions that also work without a server. Checks that read other
// objects are admission plugins of the API server.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.gardener.gardener.pkg.apis.core.v1beta1
// +groupName=core.gardener.cloud
package v1beta1
