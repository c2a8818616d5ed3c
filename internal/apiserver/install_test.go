package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"hortus.dev/hortus/internal/apiserver/registry/core/shoot"
	"hortus.dev/hortus/internal/apiserver/stored"
)

// The fields of an object can be managed in every version that it is served in, and those of subresources, too.
func TestManagedFieldsOfAllServedVersions(t *testing.T) {
	o := NewOptions()
	if err := prioritize(o.scheme); err != nil {
		t.Fatal(err)
	}
	config := genericapiserver.NewRecommendedConfig(o.codecs)
	addOpenAPI(config)
	groups, err := apiGroups(kinds(o.features(), o.Clock, shoot.KubeconfigIssuer{}, nil, nil), o.scheme, o.serializer,
		nowhere{}, &stored.Kinds{})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := samples(groups)
	if err != nil {
		t.Fatal(err)
	}
	converter, err := newTypeConverter(config.OpenAPIV3Config, objects)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[schema.GroupVersionKind]bool{}
	for _, group := range groups {
		eachStorage(group, func(gvr schema.GroupVersionResource, s rest.Storage) {
			gvk, err := endpoints.GetResourceKind(gvr.GroupVersion(), s, o.scheme)
			if err != nil {
				t.Fatal(err)
			}
			seen[gvk] = true
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(gvk)
			if _, err := converter.ObjectToTyped(object); err != nil {
				t.Errorf("%s: %v", gvr, err)
			}
		})
	}
	for _, version := range []string{"v1beta1", "v1"} {
		if gvk := (schema.GroupVersionKind{
			Group: "core.gardener.cloud", Version: version, Kind: "ControllerDeployment",
		}); !seen[gvk] {
			t.Errorf("%s is not served", gvk)
		}
	}
}

// nowhere makes stores that keep nothing.
type nowhere struct{}

func (nowhere) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{GroupResource: resource}, ResourcePrefix: resource.Resource,
		Decorator: func(
			*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
			func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}, nil
}
