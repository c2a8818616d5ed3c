package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NamespaceView is a client for one short pass over one namespace. It reads each kind in the namespace once, with a
// list that the server answers from its watch cache, instead of reading every object separately from etcd. Objects that
// are written through the view are read again afterwards. Requests for other namespaces and for types without a Go type
// go directly to the server.
//
// It is safe for concurrent use, and must be discarded after the pass.
type NamespaceView struct {
	client.Client
	namespace string
	seen      *Versions

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kindView
}

// kindView is the result of one list, and the names of the objects written since.
type kindView struct {
	mu      sync.Mutex
	loaded  bool
	objects map[string]client.Object
	written map[string]bool
}

// Versions stores the newest known resource version of each kind. Lists are requested to be no older, so that a reader
// sees its own writes and all objects that it has observed. It is safe for concurrent use. The zero value is ready to
// use.
//
// Resource versions of one kind are increasing integers
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions). Others are not stored, and lists
// then request the most recent data.
type Versions struct {
	mu     sync.Mutex
	newest map[schema.GroupVersionKind]uint64
}

// Observe records an object's resource version.
func (v *Versions) Observe(kind schema.GroupVersionKind, resourceVersion string) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.newest == nil {
		v.newest = map[schema.GroupVersionKind]uint64{}
	}
	v.newest[kind] = max(v.newest[kind], version)
}

// Forget forgets the resource version of a kind, for instance because the server has been restored from a backup.
func (v *Versions) Forget(kind schema.GroupVersionKind) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.newest, kind)
}

// options returns list options for a list that is no older than the known resource version; for the most recent one if
// none is known.
func (v *Versions) options(kind schema.GroupVersionKind) *metav1.ListOptions {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version := v.newest[kind]; version > 0 {
		return &metav1.ListOptions{
			ResourceVersion: strconv.FormatUint(version, 10), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}
	}
	return &metav1.ListOptions{}
}

// NewNamespaceView returns a view that has read nothing yet. Views of the same server share seen.
func NewNamespaceView(c client.Client, namespace string, seen *Versions) *NamespaceView {
	return &NamespaceView{Client: c, namespace: namespace, seen: seen, kinds: map[schema.GroupVersionKind]*kindView{}}
}

// Get implements client.Reader.
func (v *NamespaceView) Get(
	ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
) error {
	kind, ok := v.viewed(key.Namespace, obj)
	if !ok || len(opts) > 0 {
		return v.Client.Get(ctx, key, obj, opts...)
	}
	view := v.kind(kind)
	view.mu.Lock()
	defer view.mu.Unlock()
	if err := v.load(ctx, kind, view); err != nil {
		return err
	}
	if view.written[key.Name] {
		err := v.Client.Get(ctx, key, obj)
		if err == nil {
			v.seen.Observe(kind, obj.GetResourceVersion())
		}
		return err
	}
	found := view.objects[key.Name]
	if found == nil {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		return apierrors.NewNotFound(plural.GroupResource(), key.Name)
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

// List implements client.Reader. A list with options other than namespace and labels is sent to the server.
func (v *NamespaceView) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	listKind, err := apiutil.GVKForObject(list, v.Scheme())
	if err != nil || o.Namespace != v.namespace || o.FieldSelector != nil || o.Continue != "" || o.Raw != nil ||
		!typed(list) {
		return v.Client.List(ctx, list, opts...)
	}
	kind := listKind.GroupVersion().WithKind(strings.TrimSuffix(listKind.Kind, "List"))
	view := v.kind(kind)
	view.mu.Lock()
	defer view.mu.Unlock()
	if len(view.written) > 0 {
		view.loaded = false
	}
	if err := v.load(ctx, kind, view); err != nil {
		return err
	}
	var items []runtime.Object
	for _, object := range view.objects {
		if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			items = append(items, object.DeepCopyObject())
		}
	}
	slices.SortFunc(items, func(a, b runtime.Object) int {
		return strings.Compare(a.(client.Object).GetName(), b.(client.Object).GetName())
	})
	return meta.SetList(list, items)
}

// Create implements client.Writer.
func (v *NamespaceView) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	defer v.wrote(obj)
	return v.Client.Create(ctx, obj, opts...)
}

// Update implements client.Writer.
func (v *NamespaceView) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	defer v.wrote(obj)
	return v.Client.Update(ctx, obj, opts...)
}

// Patch implements client.Writer.
func (v *NamespaceView) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	defer v.wrote(obj)
	return v.Client.Patch(ctx, obj, patch, opts...)
}

// Delete implements client.Writer.
func (v *NamespaceView) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	defer v.removed(obj)
	return v.Client.Delete(ctx, obj, opts...)
}

// DeleteAllOf implements client.Writer.
func (v *NamespaceView) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	defer v.removed(obj)
	return v.Client.DeleteAllOf(ctx, obj, opts...)
}

// Apply implements client.Writer.
func (v *NamespaceView) Apply(
	ctx context.Context, configuration runtime.ApplyConfiguration, opts ...client.ApplyOption,
) error {
	if u, ok := configuration.(interface {
		client.Object
		GroupVersionKind() schema.GroupVersionKind
	}); ok {
		defer func() { v.note(u.GroupVersionKind(), u) }()
		return v.Client.Apply(ctx, configuration, opts...)
	}
	return fmt.Errorf("apply %T: the view of namespace %q takes only unstructured configurations", configuration,
		v.namespace)
}

// Status implements client.StatusClient.
func (v *NamespaceView) Status() client.SubResourceWriter { return v.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (v *NamespaceView) SubResource(name string) client.SubResourceClient {
	return subResourceView{SubResourceClient: v.Client.SubResource(name), view: v}
}

type subResourceView struct {
	client.SubResourceClient
	view *NamespaceView
}

func (s subResourceView) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	defer s.view.wrote(obj)
	return s.SubResourceClient.Update(ctx, obj, opts...)
}

func (s subResourceView) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	defer s.view.wrote(obj)
	return s.SubResourceClient.Patch(ctx, obj, patch, opts...)
}

// viewed reports whether the view serves the object.
func (v *NamespaceView) viewed(namespace string, obj runtime.Object) (schema.GroupVersionKind, bool) {
	if namespace != v.namespace || !typed(obj) {
		return schema.GroupVersionKind{}, false
	}
	kind, err := apiutil.GVKForObject(obj, v.Scheme())
	return kind, err == nil
}

func typed(obj runtime.Object) bool {
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return false
	}
	return true
}

func (v *NamespaceView) kind(kind schema.GroupVersionKind) *kindView {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kinds[kind] == nil {
		v.kinds[kind] = &kindView{}
	}
	return v.kinds[kind]
}

// load lists the kind unless it is already loaded. The caller holds the view's lock.
func (v *NamespaceView) load(ctx context.Context, kind schema.GroupVersionKind, view *kindView) error {
	if view.loaded {
		return nil
	}
	created, err := v.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	list, ok := created.(client.ObjectList)
	if !ok {
		return fmt.Errorf("list %s: %T is no list", kind.Kind, created)
	}
	err = v.Client.List(ctx, list, client.InNamespace(v.namespace), &client.ListOptions{Raw: v.seen.options(kind)})
	if isTooLargeVersion(err) {
		v.seen.Forget(kind)
		err = v.Client.List(ctx, list, client.InNamespace(v.namespace))
	}
	if err != nil {
		return fmt.Errorf("list %s in namespace %q: %w", kind.Kind, v.namespace, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("list %s in namespace %q: %w", kind.Kind, v.namespace, err)
	}
	view.loaded, view.objects, view.written = true, make(map[string]client.Object, len(items)), map[string]bool{}
	for _, item := range items {
		object := item.(client.Object)
		object.SetManagedFields(nil)
		view.objects[object.GetName()] = object
		v.seen.Observe(kind, object.GetResourceVersion())
	}
	return nil
}

// isTooLargeVersion reports whether the server does not know the resource version, as after a restore from a backup.
func isTooLargeVersion(err error) bool {
	return err != nil && (apierrors.IsResourceExpired(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge))
}

// wrote makes the next read of an object go to the server. It is called after every write, successful or not.
func (v *NamespaceView) wrote(obj client.Object) {
	if kind, err := apiutil.GVKForObject(obj, v.Scheme()); err == nil {
		v.note(kind, obj)
	}
}

func (v *NamespaceView) note(kind schema.GroupVersionKind, obj client.Object) {
	v.seen.Observe(kind, obj.GetResourceVersion())
	if obj.GetNamespace() != v.namespace {
		return
	}
	view := v.kind(kind)
	view.mu.Lock()
	defer view.mu.Unlock()
	if view.loaded {
		view.written[obj.GetName()] = true
	}
}

// removed makes the next read list the kind again, with the most recent data: a deletion returns no resource version to
// compare with.
func (v *NamespaceView) removed(obj client.Object) {
	if kind, ok := v.viewed(v.namespace, obj); ok {
		v.seen.Forget(kind)
		view := v.kind(kind)
		view.mu.Lock()
		defer view.mu.Unlock()
		view.loaded = false
	}
}
