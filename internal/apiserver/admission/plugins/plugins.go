// Package plugins is the list of all admission plugins, in their order.
package plugins

import (
	"io"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"hortus.dev/hortus/internal/apiserver/admission/controllerregistrationresources"
	"hortus.dev/hortus/internal/apiserver/admission/customverb"
	"hortus.dev/hortus/internal/apiserver/admission/deletionconfirmation"
	"hortus.dev/hortus/internal/apiserver/admission/exposureclass"
	"hortus.dev/hortus/internal/apiserver/admission/extensionlabels"
	"hortus.dev/hortus/internal/apiserver/admission/extensionvalidator"
	"hortus.dev/hortus/internal/apiserver/admission/finalizerremoval"
	"hortus.dev/hortus/internal/apiserver/admission/namespacedcloudprofile"
	"hortus.dev/hortus/internal/apiserver/admission/projectmutator"
	"hortus.dev/hortus/internal/apiserver/admission/resourcereference"
	"hortus.dev/hortus/internal/apiserver/admission/seedrestriction"
	"hortus.dev/hortus/internal/apiserver/admission/seedvalidator"
	"hortus.dev/hortus/internal/apiserver/admission/shootdns"
	"hortus.dev/hortus/internal/apiserver/admission/shootmutator"
	"hortus.dev/hortus/internal/apiserver/admission/shootquota"
	"hortus.dev/hortus/internal/apiserver/admission/shootvalidator"
	"hortus.dev/hortus/internal/apiserver/admission/tolerationrestriction"
)

// own lists our plugins in the order in which they decide.
var own = []struct {
	name string
	make func(io.Reader) (admission.Interface, error)
}{
	{seedrestriction.Name, seedrestriction.New},
	{resourcereference.Name, resourcereference.New},
	{extensionvalidator.Name, extensionvalidator.New},
	{tolerationrestriction.Name, tolerationrestriction.New},
	{exposureclass.Name, exposureclass.New},
	{shootmutator.Name, shootmutator.New},
	{shootdns.Name, shootdns.New},
	{shootvalidator.Name, shootvalidator.New},
	{shootquota.Name, shootquota.New},
	{namespacedcloudprofile.Name, namespacedcloudprofile.New},
	{extensionlabels.Name, extensionlabels.New},
	{seedvalidator.Name, seedvalidator.New},
	{controllerregistrationresources.Name, controllerregistrationresources.New},
	{projectmutator.Name, projectmutator.New},
	{deletionconfirmation.Name, deletionconfirmation.New},
	{finalizerremoval.Name, finalizerremoval.New},
	{customverb.Name, customverb.New},
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
