package sim

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// form is the form in which a cache keeps a kind. As in controller-runtime, each form has a watch of its own.
type form string

const (
	formTyped        form = "typed"
	formUnstructured form = "unstructured"
	formMetadata     form = "metadata"
)

func formOf(o any) form {
	switch o.(type) {
	case *unstructured.Unstructured, *unstructured.UnstructuredList:
		return formUnstructured
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return formMetadata
	}
	return formTyped
}

func (f form) like() client.Object {
	switch f {
	case formUnstructured:
		return &unstructured.Unstructured{}
	case formMetadata:
		return &metav1.PartialObjectMetadata{}
	}
	return nil
}

// simCache is a cache of one process for one cluster. It implements cache.Cache.
type simCache struct {
	process *Process
	cluster *Cluster
	by      map[schema.GroupVersionKind]cache.ByObject // Empty in the default cache.

	mu      sync.Mutex
	views   map[viewKey]*view
	indexes map[indexKey]client.IndexerFunc
}

func newCache(p *Process, c *Cluster) *simCache {
	return &simCache{
		process: p, cluster: c, by: map[schema.GroupVersionKind]cache.ByObject{},
		views: map[viewKey]*view{}, indexes: map[indexKey]client.IndexerFunc{},
	}
}

type viewKey struct {
	gvk  schema.GroupVersionKind
	form form
}

type indexKey struct {
	gvk   schema.GroupVersionKind
	field string
}

// view is a kind as it was after some number of its changes. The simulation advances it.
type view struct {
	cache *simCache
	key   viewKey

	mu       sync.Mutex
	position int
	objects  map[types.NamespacedName]*version
	handlers []toolscache.ResourceEventHandler
}

// viewOf returns the view of a kind. A new one shows the present: reflectors of client-go begin with a consistent list.
func (c *simCache) viewOf(key viewKey) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.views[key]; v != nil {
		return v
	}
	v := &view{cache: c, key: key, objects: map[types.NamespacedName]*version{}}
	changes := c.cluster.store.changes(key.gvk, 0, c.cluster.store.length(key.gvk))
	for _, change := range changes {
		v.apply(v.selected(change))
	}
	v.position = len(changes)
	c.views[key] = v
	return v
}

func (s *store) length(gvk schema.GroupVersionKind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kind(gvk).changes)
}

func (s *store) changes(gvk schema.GroupVersionKind, from, to int) []change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kind(gvk).changes[from:to]
}

// selected is the change as a watch with the selector of the kind reports it: an object that is not selected does not
// exist.
func (v *view) selected(c change) change {
	if s := v.cache.by[v.key.gvk].Label; s != nil && c.version != nil && !s.Matches(labelsOf(c.version.meta())) {
		c.version = nil
	}
	return c
}

// as returns a version in the form of the view, after the transform of its kind.
func (v *view) as(version *version) client.Object {
	o := version.as(v.cache.cluster.store.scheme, v.key.form.like())
	transform := v.cache.by[v.key.gvk].Transform
	if transform == nil {
		return o
	}
	out, err := transform(o)
	must(err)
	return out.(client.Object)
}

func (v *view) apply(c change) {
	if c.version == nil {
		delete(v.objects, c.key)
	} else {
		v.objects[c.key] = c.version
	}
}

// behind is the number of changes that the view has not seen.
func (v *view) behind() int { return v.cache.cluster.store.length(v.key.gvk) - v.position }

// next shows one more change.
func (v *view) next() {
	c := v.selected(v.cache.cluster.store.changes(v.key.gvk, v.position, v.position+1)[0])
	v.mu.Lock()
	old := v.objects[c.key]
	v.apply(c)
	v.position++
	handlers := v.handlers
	v.mu.Unlock()
	v.notify(handlers, c.key, old, c.version, false)
}

// jump shows n more changes at once, as after a broken watch: the changes in between are never seen.
func (v *view) jump(n int) {
	changes := v.cache.cluster.store.changes(v.key.gvk, v.position, v.position+n)
	v.mu.Lock()
	before := maps.Clone(v.objects)
	var touched []types.NamespacedName
	seen, passing := map[types.NamespacedName]bool{}, map[types.NamespacedName]*version{}
	for _, c := range changes {
		c = v.selected(c)
		if v.apply(c); c.version != nil {
			passing[c.key] = c.version
		}
		if !seen[c.key] {
			seen[c.key], touched = true, append(touched, c.key)
		}
	}
	v.position += n
	after, handlers := maps.Clone(v.objects), v.handlers
	v.mu.Unlock()
	for _, key := range touched {
		if before[key] == nil && after[key] == nil { // A watcher that misses both cannot know that the object existed.
			v.notify(handlers, key, nil, passing[key], true)
			v.notify(handlers, key, passing[key], nil, true)
			continue
		}
		v.notify(handlers, key, before[key], after[key], true)
	}
}

func (v *view) notify(
	handlers []toolscache.ResourceEventHandler, key types.NamespacedName, old, now *version, jumped bool,
) {
	for _, h := range handlers {
		switch {
		case old == nil && now != nil:
			h.OnAdd(v.as(now), false)
		case old != nil && now != nil:
			h.OnUpdate(v.as(old), v.as(now))
		case old != nil && jumped:
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: v.as(old)})
		case old != nil:
			h.OnDelete(v.as(old))
		}
	}
}

// snapshot returns the objects that the view shows now.
func (v *view) snapshot() map[types.NamespacedName]*version {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.objects)
}

func (v *view) get(key types.NamespacedName) *version {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.objects[key]
}

// Get implements client.Reader.
func (c *simCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if err := c.process.alive(ctx); err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(obj, c.cluster.store.scheme)
	if err != nil {
		return err
	}
	found := c.viewOf(viewKey{gvk, formOf(obj)}).get(key)
	if found == nil {
		return apierrors.NewNotFound(resource(gvk), key.Name)
	}
	c.cluster.store.fill(found, obj)
	return nil
}

// List implements client.Reader. The order is arbitrary, but the same for the same seed.
func (c *simCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.process.alive(ctx); err != nil {
		return err
	}
	gvk, err := kindOfList(list, c.cluster)
	if err != nil {
		return err
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	v := c.viewOf(viewKey{gvk, formOf(list)})
	matches := func(requirement fields.Requirement, object client.Object) (bool, error) {
		c.mu.Lock()
		index := c.indexes[indexKey{gvk, requirement.Field}]
		c.mu.Unlock()
		if index == nil {
			return false, fmt.Errorf("index with name field:%s does not exist for %s", requirement.Field, gvk.Kind)
		}
		for _, value := range index(object) {
			if value == requirement.Value {
				return true, nil
			}
		}
		return false, nil
	}
	objects := sorted(v.snapshot())
	c.process.world.shuffle(gvk, v.position, objects)
	return c.cluster.store.fillList(gvk, objects, list, o, matches)
}

func kindOfList(list client.ObjectList, c *Cluster) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(list, c.store.scheme)
	if err != nil {
		return gvk, err
	}
	if n := len(gvk.Kind) - len("List"); n > 0 && gvk.Kind[n:] == "List" {
		gvk.Kind = gvk.Kind[:n]
	}
	return gvk, nil
}

// GetInformer implements cache.Informers.
func (c *simCache) GetInformer(
	_ context.Context, obj client.Object, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	gvk, err := apiutil.GVKForObject(obj, c.cluster.store.scheme)
	if err != nil {
		return nil, err
	}
	if err := c.cluster.defined(gvk); err != nil {
		return nil, err
	}
	return informer{c.viewOf(viewKey{gvk, formOf(obj)})}, nil
}

// GetInformerForKind implements cache.Informers.
func (c *simCache) GetInformerForKind(
	_ context.Context, gvk schema.GroupVersionKind, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	return informer{c.viewOf(viewKey{gvk, formTyped})}, nil
}

// RemoveInformer implements cache.Informers.
func (c *simCache) RemoveInformer(_ context.Context, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.cluster.store.scheme)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.views, viewKey{gvk, formOf(obj)})
	return nil
}

// Start implements cache.Informers.
func (c *simCache) Start(ctx context.Context) error { <-ctx.Done(); return nil }

// WaitForCacheSync implements cache.Informers.
func (c *simCache) WaitForCacheSync(context.Context) bool { return true }

// IndexField implements client.FieldIndexer.
func (c *simCache) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	gvk, err := apiutil.GVKForObject(obj, c.cluster.store.scheme)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.indexes[indexKey{gvk, field}] != nil {
		return fmt.Errorf("indexer conflict: %s of %s", field, gvk.Kind)
	}
	c.indexes[indexKey{gvk, field}] = extract
	return nil
}

// informer notifies controllers of the changes of a view.
type informer struct{ *view }

func (i informer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	v := i.view
	v.mu.Lock()
	v.handlers = append(v.handlers, h)
	objects := sorted(v.objects)
	v.mu.Unlock()
	for _, o := range objects {
		h.OnAdd(v.as(o), true)
	}
	return registration{}, nil
}

func (i informer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, _ time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

func (i informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }
func (i informer) AddIndexers(toolscache.Indexers) error                                { return nil }
func (i informer) HasSynced() bool                                                      { return true }
func (i informer) HasSyncedChecker() toolscache.DoneChecker                             { return registration{} }
func (i informer) IsStopped() bool                                                      { return false }

type registration struct{}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (registration) HasSynced() bool                          { return true }
func (registration) HasSyncedChecker() toolscache.DoneChecker { return registration{} }
func (registration) Name() string                             { return "simulated" }
func (registration) Done() <-chan struct{}                    { return closed }

// matcher reports whether an object matches a requirement of a field selector.
type matcher func(fields.Requirement, client.Object) (bool, error)

// fillList puts the objects that the options select into the list.
func (s *store) fillList(
	gvk schema.GroupVersionKind, objects []*version, list client.ObjectList, o client.ListOptions, matches matcher,
) error {
	like := formOf(list).like()
	var items []client.Object
	for _, v := range objects {
		m := v.meta()
		if o.Namespace != "" && m.GetNamespace() != o.Namespace ||
			o.LabelSelector != nil && !o.LabelSelector.Matches(labelsOf(m)) {
			continue
		}
		object := v.as(s.scheme, like)
		selected := true
		if o.FieldSelector != nil {
			for _, r := range o.FieldSelector.Requirements() {
				ok, err := matches(r, object)
				if err != nil {
					return err
				}
				selected = selected && ok
			}
		}
		if selected {
			items = append(items, object)
		}
	}
	if o.Limit > 0 && int64(len(items)) > o.Limit {
		items = items[:o.Limit]
	}
	return setItems(list, items)
}

// setItems is meta.SetList for values: lists of typed objects hold structs.
func setItems(list client.ObjectList, items []client.Object) error {
	objects := make([]runtimeObject, 0, len(items))
	for _, i := range items {
		objects = append(objects, i)
	}
	return meta.SetList(list, objects)
}
