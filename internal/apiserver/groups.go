package apiserver

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"

	corev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry/core/backupbucket"
	"hortus.dev/hortus/internal/apiserver/registry/core/backupentry"
	"hortus.dev/hortus/internal/apiserver/registry/core/cloudprofile"
	"hortus.dev/hortus/internal/apiserver/registry/core/controllerdeployment"
	"hortus.dev/hortus/internal/apiserver/registry/core/controllerinstallation"
	"hortus.dev/hortus/internal/apiserver/registry/core/controllerregistration"
	"hortus.dev/hortus/internal/apiserver/registry/core/exposureclass"
	"hortus.dev/hortus/internal/apiserver/registry/core/internalsecret"
	"hortus.dev/hortus/internal/apiserver/registry/core/namespacedcloudprofile"
	"hortus.dev/hortus/internal/apiserver/registry/core/project"
	"hortus.dev/hortus/internal/apiserver/registry/core/quota"
	"hortus.dev/hortus/internal/apiserver/registry/core/secretbinding"
	"hortus.dev/hortus/internal/apiserver/registry/core/seed"
	"hortus.dev/hortus/internal/apiserver/registry/core/shoot"
	"hortus.dev/hortus/internal/apiserver/registry/core/shootstate"
	"hortus.dev/hortus/internal/apiserver/registry/operations/bastion"
	"hortus.dev/hortus/internal/apiserver/registry/security/credentialsbinding"
	"hortus.dev/hortus/internal/apiserver/registry/security/workloadidentity"
	"hortus.dev/hortus/internal/apiserver/registry/seedmanagement/gardenlet"
	"hortus.dev/hortus/internal/apiserver/registry/seedmanagement/managedseed"
	"hortus.dev/hortus/internal/apiserver/stored"
)

// served is a kind with its type parameter hidden.
type served interface {
	Storage(*runtime.Scheme, generic.RESTOptionsGetter) (map[string]rest.Storage, error)
	AddFieldLabels(scheme *runtime.Scheme, kind string, versions ...string) error
}

// entry is a kind with the group and versions that serve it.
type entry struct {
	group    string
	kind     string
	versions []string
	served   served
}

// kinds returns all kinds that the server serves.
func kinds(
	features corev1beta1.Features, clock clock.PassiveClock, kubeconfigs shoot.KubeconfigIssuer, backups shoot.ListBackups,
	tokens *workloadidentity.TokenIssuer,
) []entry {
	shoots := shoot.Kind(features)
	shoots.Subresources = shoot.Subresources(kubeconfigs, backups)
	core := func(kind string, s served) entry {
		return entry{corev1beta1.GroupName, kind, []string{corev1beta1.SchemeGroupVersion.Version}, s}
	}
	security := func(kind string, s served) entry {
		return entry{securityv1alpha1.GroupName, kind, []string{securityv1alpha1.SchemeGroupVersion.Version}, s}
	}
	return []entry{
		core("BackupBucket", backupbucket.Kind()),
		core("BackupEntry", backupentry.Kind()),
		core("CloudProfile", cloudprofile.Kind(features, clock)),
		core("ControllerInstallation", controllerinstallation.Kind()),
		core("ControllerRegistration", controllerregistration.Kind()),
		core("ExposureClass", exposureclass.Kind()),
		core("InternalSecret", internalsecret.Kind()),
		core("NamespacedCloudProfile", namespacedcloudprofile.Kind(features, clock)),
		core("Project", project.Kind()),
		core("Quota", quota.Kind()),
		core("SecretBinding", secretbinding.Kind()),
		core("Seed", seed.Kind()),
		core("Shoot", shoots),
		core("ShootState", shootstate.Kind()),
		{corev1.GroupName, "ControllerDeployment",
			[]string{corev1beta1.SchemeGroupVersion.Version, corev1.SchemeGroupVersion.Version}, controllerdeployment.Kind()},
		security("CredentialsBinding", credentialsbinding.Kind()),
		security("WorkloadIdentity", workloadidentity.Kind(tokens)),
		{seedmanagementv1alpha1.GroupName, "ManagedSeed", []string{seedmanagementv1alpha1.SchemeGroupVersion.Version},
			managedseed.Kind()},
		{seedmanagementv1alpha1.GroupName, "Gardenlet", []string{seedmanagementv1alpha1.SchemeGroupVersion.Version},
			gardenlet.Kind()},
		{operationsv1alpha1.GroupName, "Bastion", []string{operationsv1alpha1.SchemeGroupVersion.Version},
			bastion.Kind(clock)},
	}
}

// apiGroups creates the storage of all kinds, sorts it into groups and versions, and adds it to the kinds that can be
// watched in the process.
func apiGroups(
	entries []entry, scheme *runtime.Scheme, ns runtime.NegotiatedSerializer, getter generic.RESTOptionsGetter,
	follow *stored.Kinds,
) ([]*genericapiserver.APIGroupInfo, error) {
	var groups []*genericapiserver.APIGroupInfo
	byName := map[string]*genericapiserver.APIGroupInfo{}
	parameters := runtime.NewParameterCodec(scheme)
	for _, e := range entries {
		group := byName[e.group]
		if group == nil {
			group = &genericapiserver.APIGroupInfo{
				PrioritizedVersions:          scheme.PrioritizedVersionsForGroup(e.group),
				VersionedResourcesStorageMap: map[string]map[string]rest.Storage{},
				OptionsExternalVersion:       &schema.GroupVersion{Version: "v1"},
				Scheme:                       scheme,
				ParameterCodec:               parameters,
				NegotiatedSerializer:         ns,
			}
			byName[e.group] = group
			groups = append(groups, group)
		}
		if err := e.served.AddFieldLabels(scheme, e.kind, e.versions...); err != nil {
			return nil, fmt.Errorf("add field labels of %s: %w", e.kind, err)
		}
		storages, err := e.served.Storage(scheme, getter)
		if err != nil {
			return nil, err
		}
		for path, storage := range storages {
			if !strings.Contains(path, "/") { // Subresources serve objects of the same or another kind.
				follow.Add(storage)
			}
		}
		for _, version := range e.versions {
			if group.VersionedResourcesStorageMap[version] == nil {
				group.VersionedResourcesStorageMap[version] = map[string]rest.Storage{}
			}
			maps.Copy(group.VersionedResourcesStorageMap[version], storages)
		}
	}
	return groups, nil
}

// storedAsV1 stores ControllerDeployments in v1. All other kinds are stored in the first version of their group that
// the server's options list.
type storedAsV1 struct {
	generic.RESTOptionsGetter
	codecs serializer.CodecFactory
}

func (g storedAsV1) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || resource != corev1.Resource("controllerdeployments") {
		return options, err
	}
	config := storagebackend.ConfigForResource{Config: options.StorageConfig.Config, GroupResource: resource}
	config.Codec = g.codecs.LegacyCodec(corev1.SchemeGroupVersion)
	config.EncodeVersioner = corev1.SchemeGroupVersion
	options.StorageConfig = &config
	return options, nil
}
