package managedresource

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// owned follows the metadata of the objects in the target cluster that carry the managed-by label. Each kind is watched
// from its first object on.
type owned struct {
	cache      cache.Cache // Only objects with the label, only metadata.
	controller controller.Controller

	mu      sync.Mutex
	started map[schema.GroupVersionKind]cache.Informer
}

// watch begins to follow a kind. An error only costs the shortcut: the objects are read directly then.
func (o *owned) watch(ctx context.Context, gvk schema.GroupVersionKind) error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started[gvk] != nil {
		return nil
	}
	kind := metadata(gvk)
	informer, err := o.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	toOrigin := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context,
		m *metav1.PartialObjectMetadata) []reconcile.Request {
		key, ok := parseOrigin(m.Annotations[resourcesv1alpha1.AnnotationOrigin])
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
	if err := o.controller.Watch(source.Kind(o.cache, kind, toOrigin)); err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	if o.started == nil {
		o.started = map[schema.GroupVersionKind]cache.Informer{}
	}
	o.started[gvk] = informer
	return nil
}

// get returns the metadata of an object, nil if the object is not there or nothing is known of its kind.
func (o *owned) get(ctx context.Context, ref reference) *metav1.PartialObjectMetadata {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	informer := o.started[ref.GroupVersionKind]
	o.mu.Unlock()
	if informer == nil || !informer.HasSynced() {
		return nil
	}
	m := metadata(ref.GroupVersionKind)
	if err := o.cache.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, m); err != nil {
		return nil
	}
	return m
}

func metadata(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	return m
}

// stamp changes whenever the part of an object that is applied changes. The generation of kinds that have one moves
// with the spec only, so changes of their status do not matter here.
func stamp(m metav1.Object) string {
	h := fnv.New64a()
	for _, set := range []map[string]string{m.GetLabels(), m.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			if key == appsv1.DeprecatedTemplateGeneration {
				continue // The API server generates it in whole objects, and omits it in their metadata.
			}
			fmt.Fprintf(h, "%q %q\n", key, set[key])
		}
	}
	version := m.GetResourceVersion()
	if g := m.GetGeneration(); g > 0 {
		version = fmt.Sprintf("generation %d", g)
	}
	if m.GetDeletionTimestamp() != nil {
		version += " deleting"
	}
	return fmt.Sprintf("%s %s %x", m.GetUID(), version, h.Sum64())
}

// origin is the value of the origin annotation: [<cluster>:]<namespace>/<name>.
func origin(cluster string, key types.NamespacedName) string {
	if cluster == "" {
		return key.String()
	}
	return cluster + ":" + key.String()
}

func parseOrigin(value string) (types.NamespacedName, bool) {
	if _, after, ok := strings.Cut(value, ":"); ok {
		value = after
	}
	namespace, name, ok := strings.Cut(value, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && namespace != "" && name != ""
}
