package apiserver

import (
	"fmt"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	genericapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// installer serves groups of kinds. It does the same as InstallAPIGroups of the generic server, but computes managed
// fields with its own type converter, which InstallAPIGroups cannot be given.
type installer struct {
	server *genericapiserver.GenericAPIServer
	config *genericapiserver.RecommendedConfig
}

func (i installer) install(groups []*genericapiserver.APIGroupInfo) error {
	converter, err := newTypeConverter(i.config.OpenAPIV3Config)
	if err != nil {
		return fmt.Errorf("read the schema of managed fields: %w", err)
	}
	for _, group := range groups {
		for _, gv := range group.PrioritizedVersions {
			if err := i.installVersion(group, gv, mapConverter{converter}); err != nil {
				return fmt.Errorf("serve %s: %w", gv, err)
			}
		}
		i.announce(group.PrioritizedVersions)
		i.server.RegisterDestroyFunc(func() {
			eachStorage(group, func(_ schema.GroupVersionResource, s rest.Storage) { s.Destroy() })
		})
		eachStorage(group, func(gvr schema.GroupVersionResource, s rest.Storage) {
			if ready, ok := s.(rest.StorageWithReadiness); ok {
				i.server.StorageReadinessHook.RegisterStorage(metav1.GroupVersionResource(gvr), ready)
			}
		})
	}
	return nil
}

// eachStorage calls visit for the storage of every resource and subresource.
func eachStorage(group *genericapiserver.APIGroupInfo, visit func(schema.GroupVersionResource, rest.Storage)) {
	for _, gv := range group.PrioritizedVersions {
		for path, storage := range group.VersionedResourcesStorageMap[gv.Version] {
			visit(gv.WithResource(path), storage)
		}
	}
}

func (i installer) installVersion(
	group *genericapiserver.APIGroupInfo, gv schema.GroupVersion, converter managedfields.TypeConverter,
) error {
	versions := map[string][]string{}
	eachStorage(group, func(gvr schema.GroupVersionResource, _ rest.Storage) {
		versions[gvr.Resource] = append(versions[gvr.Resource], gvr.GroupVersion().String())
	})
	resources, _, err := (&genericapi.APIGroupVersion{
		Root: genericapiserver.APIGroupPrefix, GroupVersion: gv, AllServedVersionsByResource: versions,
		Storage: group.VersionedResourcesStorageMap[gv.Version], TypeConverter: converter,

		MetaGroupVersion: group.MetaGroupVersion, OptionsExternalVersion: group.OptionsExternalVersion,
		ParameterCodec: group.ParameterCodec, Serializer: group.NegotiatedSerializer,
		Creater: group.Scheme, Convertor: group.Scheme, ConvertabilityChecker: group.Scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(group.Scheme), Defaulter: group.Scheme, Typer: group.Scheme,
		Namer: runtime.Namer(meta.NewAccessor()),

		EquivalentResourceRegistry: i.server.EquivalentResourceRegistry, Authorizer: i.server.Authorizer,
		Admit:               i.config.AdmissionControl,
		MinRequestTimeout:   time.Duration(i.config.MinRequestTimeout) * time.Second,
		MaxRequestBodyBytes: i.config.MaxRequestBodyBytes,
	}).InstallREST(i.server.Handler.GoRestfulContainer)
	if err != nil {
		return err
	}
	i.server.AggregatedDiscoveryGroupManager.AddGroupVersion(gv.Group, apidiscoveryv2.APIVersionDiscovery{
		Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: gv.Version, Resources: resources,
	})
	return nil
}

// announce adds a group to discovery, for clients that request each group separately.
func (i installer) announce(versions []schema.GroupVersion) {
	group := metav1.APIGroup{Name: versions[0].Group}
	for _, gv := range versions {
		group.Versions = append(group.Versions,
			metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
	}
	group.PreferredVersion = group.Versions[0]
	i.server.DiscoveryGroupManager.AddGroup(group)
	i.server.Handler.GoRestfulContainer.Add(discovery.NewAPIGroupHandler(i.server.Serializer, group).WebService())
}
