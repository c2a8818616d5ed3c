// Package plugins is the list of all admission plugins, in their order.
package plugins

import (
	"io"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"hortus.dev/hortus/internal/apiserver/admission/deletionconfirmation"
	"hortus.dev/hortus/internal/apiserver/admission/projectmutator"
	"hortus.dev/hortus/internal/apiserver/admission/resourcereference"
	"hortus.dev/hortus/internal/apiserver/admission/shootmutator"
	"hortus.dev/hortus/internal/apiserver/admission/shootvalidator"
)

// own lists our plugins in the order in which they decide.
var own = []struct {
	name string
	make func(io.Reader) (admission.Interface, error)
}{
	{resourcereference.Name, resourcereference.New},
	{shootmutator.Name, shootmutator.New},
	{shootvalidator.Name, shootvalidator.New},
	{projectmutator.Name, projectmutator.New},
	{deletionconfirmation.Name, deletionconfirmation.New},
}

// Register adds our plugins to those of the library, behind the check of namespaces and before policies and webhooks.
func Register(options *genericoptions.AdmissionOptions) {
	var names []string
	for _, plugin := range own {
		options.Plugins.Register(plugin.name, plugin.make)
		names = append(names, plugin.name)
	}
	at := slices.Index(options.RecommendedPluginOrder, lifecycle.PluginName) + 1
	options.RecommendedPluginOrder = slices.Insert(slices.Clone(options.RecommendedPluginOrder), at, names...)
}
