package chart

import (
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// The version of Kubernetes that Hortus is built for, which is that of its Kubernetes modules.
const (
	KubernetesVersion = "v1.36.3"
	kubernetesMajor   = "1"
	kubernetesMinor   = "36"
)

// Capabilities is the value of .Capabilities in templates. The zero value stands for a cluster of KubernetesVersion
// with the API versions that its clients know.
type Capabilities struct {
	version apiversion.Info
	// apis are group/version and group/version/Kind, sorted.
	apis []string
}

// CapabilitiesOf returns the capabilities of a server with the version, groups and resources that it reports.
func CapabilitiesOf(
	version apiversion.Info, groups []*metav1.APIGroup, resources []*metav1.APIResourceList,
) Capabilities {
	var apis []string
	for _, group := range groups {
		for _, v := range group.Versions {
			apis = append(apis, v.GroupVersion)
		}
	}
	for _, list := range resources {
		apis = append(apis, list.GroupVersion)
		for i := range list.APIResources {
			apis = append(apis, list.GroupVersion+"/"+list.APIResources[i].Kind)
		}
	}
	slices.Sort(apis)
	return Capabilities{version: version, apis: slices.Compact(apis)}
}

// WithKindsOf adds the kinds that earlier capabilities have of a group/version.
func (c Capabilities) WithKindsOf(earlier Capabilities, groupVersion string) Capabilities {
	apis := append(slices.Clone(c.apis), groupVersion)
	for _, api := range earlier.apis {
		if strings.HasPrefix(api, groupVersion+"/") {
			apis = append(apis, api)
		}
	}
	slices.Sort(apis)
	return Capabilities{version: c.version, apis: slices.Compact(apis)}
}

// Has reports whether there is a group/version or group/version/Kind.
func (c Capabilities) Has(api string) bool { return c.forTemplates().APIVersions.Has(api) }

// Version is that of Kubernetes.
func (c Capabilities) Version() string { return c.forTemplates().KubeVersion.Version }

func (c Capabilities) forTemplates() *chartutil.Capabilities {
	out := chartutil.DefaultCapabilities.Copy()
	if c.version.GitVersion == "" {
		out.KubeVersion = chartutil.KubeVersion{Version: KubernetesVersion, Major: kubernetesMajor, Minor: kubernetesMinor}
		return out
	}
	out.KubeVersion = chartutil.KubeVersion{
		Version: c.version.GitVersion, Major: c.version.Major, Minor: c.version.Minor,
	}
	out.APIVersions = c.apis
	return out
}
