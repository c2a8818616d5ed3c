package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Storage creates the storage of a kind and its subresources, by the path below the version.
func (k *Kind[T]) Storage(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	base := strategy[T]{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, kind: k}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return k.New() },
		NewListFunc:               k.NewList,
		PredicateFunc:             k.predicate,
		DefaultQualifiedResource:  k.Resource,
		SingularQualifiedResource: schema.GroupResource{Group: k.Resource.Group, Resource: k.Singular},
		CreateStrategy:            base,
		UpdateStrategy:            base,
		DeleteStrategy:            base,
		ResetFieldsStrategy:       base,
		TableConvertor:            tableConvertor[T]{kind: k},
	}
	options := &generic.StoreOptions{RESTOptions: getter, AttrFunc: k.attrs}
	if len(k.Indexed) > 0 {
		options.Indexers, options.TriggerFunc = k.indexers()
	}
	if err := store.CompleteWithOptions(options); err != nil {
		return nil, fmt.Errorf("make store of %s: %w", k.Resource, err)
	}

	storages := map[string]rest.Storage{k.Resource.Resource: &resource{
		Store: store, shortNames: k.ShortNames, categories: k.Categories,
	}}
	if k.CopyStatus != nil {
		storages[k.Resource.Resource+"/status"] = k.subresource(store, statusStrategy[T]{base})
	}
	if k.Subresources != nil {
		for name, s := range k.Subresources(store) {
			storages[k.Resource.Resource+"/"+name] = s
		}
	}
	return storages, nil
}

// AddFieldLabels registers the selectable fields of a kind in a scheme, for the given versions.
func (k *Kind[T]) AddFieldLabels(scheme *runtime.Scheme, kind string, versions ...string) error {
	known := map[string]string{}
	for key := range k.selectable(k.New()) {
		known[key] = key
	}
	maps.Copy(known, k.FieldSpellings)
	supported := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	for _, version := range versions {
		gvk := schema.GroupVersionKind{Group: k.Resource.Group, Version: version, Kind: kind}
		if err := scheme.AddFieldLabelConversionFunc(gvk, func(label, value string) (string, string, error) {
			key, ok := known[label]
			if !ok {
				return "", "", fmt.Errorf("field label not supported: %s; supported are %s", label, supported)
			}
			return key, value, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kind[T]) selectable(object T) fields.Set {
	set := fields.Set{}
	if k.Fields != nil {
		set = k.Fields(object)
	}
	set["metadata.name"] = object.GetName()
	if k.Namespaced {
		set["metadata.namespace"] = object.GetNamespace()
	}
	return set
}

func (k *Kind[T]) attrs(o runtime.Object) (labels.Set, fields.Set, error) {
	object, ok := o.(T)
	if !ok {
		return nil, nil, fmt.Errorf("%T is not a %s", o, k.Singular)
	}
	return object.GetLabels(), k.selectable(object), nil
}

func (k *Kind[T]) predicate(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: k.attrs, IndexFields: k.Indexed}
}

// indexers returns the indexes of the watch cache. Watches are dispatched by the first index only, because the library
// supports one trigger.
func (k *Kind[T]) indexers() (*cache.Indexers, map[string]storage.IndexerFunc) {
	indexers := cache.Indexers{}
	for _, name := range k.Indexed {
		indexers[storage.FieldIndex(name)] = func(o any) ([]string, error) {
			object, ok := o.(T)
			if !ok {
				return nil, fmt.Errorf("%T is not a %s", o, k.Singular)
			}
			return []string{k.Fields(object)[name]}, nil
		}
	}
	first := k.Indexed[0]
	return &indexers,
		map[string]storage.IndexerFunc{first: func(o runtime.Object) string { return k.Fields(o.(T))[first] }}
}

// resource is a store with the names for discovery.
type resource struct {
	*genericregistry.Store
	shortNames, categories []string
}

func (r *resource) ShortNames() []string { return r.shortNames }
func (r *resource) Categories() []string { return r.categories }

// Strategy is the strategy of a subresource that supports updates.
type Strategy interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// Subresource serves get, update and patch of an object with a different strategy.
type Subresource struct {
	store          *genericregistry.Store
	tableConvertor rest.TableConvertor
}

func (k *Kind[T]) subresource(store *genericregistry.Store, s Strategy) *Subresource {
	return NewSubresource(store, s)
}

// NewSubresource returns a subresource that updates the objects of a store with a different strategy.
func NewSubresource(store *genericregistry.Store, s Strategy) *Subresource {
	under := *store
	under.UpdateStrategy, under.ResetFieldsStrategy = s, s
	return &Subresource{store: &under, tableConvertor: store.TableConvertor}
}

func (s *Subresource) New() runtime.Object { return s.store.New() }
func (s *Subresource) Destroy()            {} // The store belongs to the resource.

func (s *Subresource) Get(ctx context.Context, name string, options *v1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

func (s *Subresource) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *v1.UpdateOptions,
) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, create, update, false, options)
}

func (s *Subresource) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

func (s *Subresource) ConvertToTable(ctx context.Context, o, options runtime.Object) (*v1.Table, error) {
	return s.tableConvertor.ConvertToTable(ctx, o, options)
}
