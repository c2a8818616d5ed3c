// Package plugins lists all admission plugins in their order.
package plugins

import (
	"io"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"hortus.dev/hortus/internal/apiserver/admission/backupbucketvalidator"
	"hortus.dev/hortus/internal/apiserver/admission/bastion"
	"hortus.dev/hortus/internal/apiserver/admission/controllerregistrationresources"
	"hortus.dev/hortus/internal/apiserver/admission/customverb"
	"hortus.dev/hortus/internal/apiserver/admission/deletionconfirmation"
	"hortus.dev/hortus/internal/apiserver/admission/exposureclass"
	"hortus.dev/hortus/internal/apiserver/admission/extensionlabels"
	"hortus.dev/hortus/internal/apiserver/admission/extensionvalidator"
	"hortus.dev/hortus/internal/apiserver/admission/finalizerremoval"
	"hortus.dev/hortus/internal/apiserver/admission/gardenlet"
	"hortus.dev/hortus/internal/apiserver/admission/managedseed"
	"hortus.dev/hortus/internal/apiserver/admission/managedseedshoot"
	"hortus.dev/hortus/internal/apiserver/admission/namespacedcloudprofile"
	"hortus.dev/hortus/internal/apiserver/admission/projectmutator"
	"hortus.dev/hortus/internal/apiserver/admission/resourcereference"
	"hortus.dev/hortus/internal/apiserver/admission/resourcereservation"
	"hortus.dev/hortus/internal/apiserver/admission/seedmutator"
	"hortus.dev/hortus/internal/apiserver/admission/seedrestriction"
	"hortus.dev/hortus/internal/apiserver/admission/seedvalidator"
	"hortus.dev/hortus/internal/apiserver/admission/shootdns"
	"hortus.dev/hortus/internal/apiserver/admission/shootdnsrewriting"
	"hortus.dev/hortus/internal/apiserver/admission/shootmanagedseed"
	"hortus.dev/hortus/internal/apiserver/admission/shootmutator"
	"hortus.dev/hortus/internal/apiserver/admission/shootnodelocaldns"
	"hortus.dev/hortus/internal/apiserver/admission/shootquota"
	"hortus.dev/hortus/internal/apiserver/admission/shootvalidator"
	"hortus.dev/hortus/internal/apiserver/admission/shootvpa"
	"hortus.dev/hortus/internal/apiserver/admission/tolerationrestriction"
)

// own lists our plugins in the order in which they are called.
var own = []struct {
	name string
	make func(io.Reader) (admission.Interface, error)
	off  bool // Disabled by default.
}{
	{name: seedrestriction.Name, make: seedrestriction.New},
	{name: resourcereference.Name, make: resourcereference.New},
	{name: extensionvalidator.Name, make: extensionvalidator.New},
	{name: tolerationrestriction.Name, make: tolerationrestriction.New},
	{name: exposureclass.Name, make: exposureclass.New},
	{name: shootdns.Name, make: shootdns.New},
	{name: shootmanagedseed.Name, make: shootmanagedseed.New},
	{name: shootnodelocaldns.Name, make: shootnodelocaldns.New, off: true},
	{name: shootdnsrewriting.Name, make: shootdnsrewriting.New, off: true},
	{name: shootvpa.Name, make: shootvpa.New, off: true}, // Nothing deploys a VPA yet.
	{name: resourcereservation.Name, make: resourcereservation.New},
	{name: shootmutator.Name, make: shootmutator.New},
	{name: shootvalidator.Name, make: shootvalidator.New},
	{name: shootquota.Name, make: shootquota.New},
	{name: namespacedcloudprofile.Name, make: namespacedcloudprofile.New},
	{name: extensionlabels.Name, make: extensionlabels.New}, // Images have been completed by shootmutator.
	{name: seedvalidator.Name, make: seedvalidator.New},
	{name: seedmutator.Name, make: seedmutator.New},
	{name: controllerregistrationresources.Name, make: controllerregistrationresources.New},
	{name: projectmutator.Name, make: projectmutator.New},
	{name: deletionconfirmation.Name, make: deletionconfirmation.New},
	{name: finalizerremoval.Name, make: finalizerremoval.New},
	{name: customverb.Name, make: customverb.New},
	{name: managedseed.Name, make: managedseed.New},
	{name: managedseedshoot.Name, make: managedseedshoot.New},
	{name: gardenlet.Name, make: gardenlet.New},
	{name: bastion.Name, make: bastion.New},
	{name: backupbucketvalidator.Name, make: backupbucketvalidator.New},
}

// Names returns the names of our plugins in their order.
func Names() []string {
	var names []string
	for _, plugin := range own {
		names = append(names, plugin.name)
	}
	return names
}

// Register adds our plugins to the library's, after NamespaceLifecycle and before policies and webhooks.
func Register(options *genericoptions.AdmissionOptions) {
	for _, plugin := range own {
		options.Plugins.Register(plugin.name, plugin.make)
		if plugin.off {
			options.DefaultOffPlugins.Insert(plugin.name)
		}
	}
	at := slices.Index(options.RecommendedPluginOrder, lifecycle.PluginName) + 1
	options.RecommendedPluginOrder = slices.Insert(slices.Clone(options.RecommendedPluginOrder), at, Names()...)
}
