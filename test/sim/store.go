package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// store is an API server: objects as JSON, with everything that controllers rely on. It keeps every version of every
// object, so that a cache may show any of them.
type store struct {
	scheme *runtime.Scheme

	mu      sync.Mutex
	version int64
	uids    int64
	kinds   map[schema.GroupVersionKind]*history
	applied map[applyKey]applied
	// annotated are the kinds whose annotations are written with the status, too.
	annotated map[schema.GroupVersionKind]bool
}

type applyKey struct {
	gvk         schema.GroupVersionKind
	key         types.NamespacedName
	part, owner string
}

// applied is the last server-side apply of one owner. The same one to the same version changes nothing, and controllers
// apply nearly everything in nearly every pass.
type applied struct {
	wanted map[string]any
	force  bool
	result *version
}

// history has all changes of one kind, and the objects after the last of them.
type history struct {
	changes []change
	live    map[types.NamespacedName]*version
}

// change is one event of a watch. After a deletion, version is nil.
type change struct {
	key      types.NamespacedName
	version  *version
	revision int64
}

// version is an object as it was at some time. It is never changed.
type version struct {
	object map[string]any
	decode sync.Once
	typed  client.Object // What decode has made of it, for kinds that the scheme knows.
}

func newStore(scheme *runtime.Scheme) *store {
	return &store{
		scheme: scheme, kinds: map[schema.GroupVersionKind]*history{}, applied: map[applyKey]applied{},
		annotated: map[schema.GroupVersionKind]bool{},
	}
}

func (s *store) kind(gvk schema.GroupVersionKind) *history {
	h := s.kinds[gvk]
	if h == nil {
		h = &history{live: map[types.NamespacedName]*version{}}
		s.kinds[gvk] = h
	}
	return h
}

func (v *version) meta() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: v.object}
}

// as returns the object in the form of like: typed, unstructured or only its metadata.
func (v *version) as(scheme *runtime.Scheme, like client.Object) client.Object {
	switch like.(type) {
	case *unstructured.Unstructured:
		out := v.meta().DeepCopy()
		out.SetManagedFields(nil)
		return out
	case *metav1.PartialObjectMetadata:
		out := &metav1.PartialObjectMetadata{}
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{
			"apiVersion": v.object["apiVersion"], "kind": v.object["kind"], "metadata": v.object["metadata"],
		}, out))
		out.ManagedFields = nil
		return out
	}
	v.decode.Do(func() {
		o, err := scheme.New(v.meta().GroupVersionKind())
		must(err)
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(v.object, o))
		v.typed = o.(client.Object)
		v.typed.SetManagedFields(nil)
		v.typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // As a typed client leaves it.
	})
	return v.typed.DeepCopyObject().(client.Object)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// encode turns an object of any form into JSON values.
func encode(o runtime.Object, gvk schema.GroupVersionKind) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	must(err)
	out = runtime.DeepCopyJSON(out)
	u := &unstructured.Unstructured{Object: out}
	u.SetGroupVersionKind(gvk)
	if created := u.GetCreationTimestamp(); created.IsZero() {
		unstructured.RemoveNestedField(out, "metadata", "creationTimestamp")
	}
	return out
}

// resource returns the resource of a kind as errors of an API server name it.
func resource(gvk schema.GroupVersionKind) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural.GroupResource()
}

// get returns the newest version, or a NotFound error.
func (s *store) get(gvk schema.GroupVersionKind, key types.NamespacedName) (*version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.kind(gvk).live[key]; v != nil {
		return v, nil
	}
	return nil, apierrors.NewNotFound(resource(gvk), key.Name)
}

// list returns the newest versions, sorted by name.
func (s *store) list(gvk schema.GroupVersionKind) []*version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.kind(gvk).live)
}

// listAt returns the versions that a watch cache has which is no older than a revision, sorted by name. How far it is
// behind depends on n.
func (s *store) listAt(gvk schema.GroupVersionKind, revision int64, n uint64) []*version {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.kind(gvk)
	seen := len(h.changes) - int(n%(maxBehind+1))
	objects := map[types.NamespacedName]*version{}
	for i, c := range h.changes {
		if i >= seen && c.revision > revision {
			break
		}
		if objects[c.key] = c.version; c.version == nil {
			delete(objects, c.key)
		}
	}
	return sorted(objects)
}

func sorted(objects map[types.NamespacedName]*version) []*version {
	keys := slices.SortedFunc(maps.Keys(objects), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
	out := make([]*version, 0, len(keys))
	for _, key := range keys {
		out = append(out, objects[key])
	}
	return out
}

// put stores the next version of an object, or its end.
func (s *store) put(gvk schema.GroupVersionKind, key types.NamespacedName, object map[string]any) *version {
	s.version++
	h := s.kind(gvk)
	if object == nil {
		delete(h.live, key)
		h.changes = append(h.changes, change{key: key, revision: s.version})
		return nil
	}
	(&unstructured.Unstructured{Object: object}).SetResourceVersion(strconv.FormatInt(s.version, 10))
	v := &version{object: object}
	h.live[key] = v
	h.changes = append(h.changes, change{key: key, version: v, revision: s.version})
	return v
}

// create stores a new object.
func (s *store) create(gvk schema.GroupVersionKind, object map[string]any, now time.Time) (*version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.createLocked(gvk, object, now)
}

func (s *store) createLocked(gvk schema.GroupVersionKind, object map[string]any, now time.Time) (*version, error) {
	u := &unstructured.Unstructured{Object: object}
	if u.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	s.uids++
	if u.GetName() == "" {
		if u.GetGenerateName() == "" {
			return nil, apierrors.NewBadRequest("metadata.name: Required value")
		}
		u.SetName(fmt.Sprintf("%s%05d", u.GetGenerateName(), s.uids))
	}
	key := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	if s.kind(gvk).live[key] != nil {
		return nil, apierrors.NewAlreadyExists(resource(gvk), key.Name)
	}
	if err := s.namespaceFor(gvk, key); err != nil {
		return nil, err
	}
	u.SetUID(types.UID(fmt.Sprintf("%08d-0000-0000-0000-000000000000", s.uids)))
	u.SetCreationTimestamp(metav1.NewTime(now))
	u.SetDeletionTimestamp(nil)
	u.SetGeneration(0)
	if object["spec"] != nil { // Others, such as ConfigMaps, have no generation.
		u.SetGeneration(1)
	}
	if gvk.Kind == "Namespace" && gvk.Group == "" {
		must(unstructured.SetNestedStringSlice(object, []string{"kubernetes"}, "spec", "finalizers"))
	}
	return s.put(gvk, key, object), nil
}

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// namespaceFor refuses objects in namespaces that do not exist, or that are being deleted.
func (s *store) namespaceFor(gvk schema.GroupVersionKind, key types.NamespacedName) error {
	if key.Namespace == "" {
		if namespaced(gvk) {
			return apierrors.NewBadRequest(fmt.Sprintf("%s %s has no namespace", gvk.Kind, key.Name))
		}
		return nil
	}
	if !namespaced(gvk) {
		return apierrors.NewBadRequest(fmt.Sprintf("%s %s has a namespace, but its kind has none", gvk.Kind, key))
	}
	ns := s.kind(namespaceKind).live[types.NamespacedName{Name: key.Namespace}]
	switch {
	case ns == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Namespace)
	case ns.meta().GetDeletionTimestamp() != nil:
		err := apierrors.NewForbidden(resource(gvk), key.Name,
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", key.Namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: "NamespaceTerminating", Field: "metadata.namespace",
		})
		return err
	}
	return nil
}

// update replaces an object by the result of next. part is "" or the subresource that is written.
func (s *store) update(
	gvk schema.GroupVersionKind, key types.NamespacedName, part string, next func(map[string]any) (map[string]any, error),
) (*version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.updateLocked(gvk, key, part, next)
}

func (s *store) updateLocked(
	gvk schema.GroupVersionKind, key types.NamespacedName, part string, next func(map[string]any) (map[string]any, error),
) (*version, error) {
	old := s.kind(gvk).live[key]
	if old == nil {
		return nil, apierrors.NewNotFound(resource(gvk), key.Name)
	}
	object, err := next(runtime.DeepCopyJSON(old.object))
	if err != nil {
		return nil, err
	}
	before, after := old.meta(), &unstructured.Unstructured{Object: object}
	if rv := after.GetResourceVersion(); rv != "" && rv != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource(gvk), key.Name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid := after.GetUID(); uid != "" && uid != before.GetUID() {
		return nil, apierrors.NewConflict(resource(gvk), key.Name, fmt.Errorf(
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, before.GetUID()))
	}
	switch part {
	case "":
		if s.hasStatus(gvk) {
			replaceField(object, old.object, "status")
		}
	case "status", "approval":
		status := object["status"]
		fields, annotations := after.GetManagedFields(), after.GetAnnotations()
		object = runtime.DeepCopyJSON(old.object)
		if delete(object, "status"); status != nil {
			object["status"] = status
		}
		after = &unstructured.Unstructured{Object: object}
		after.SetManagedFields(fields)
		if s.annotated[gvk] {
			after.SetAnnotations(annotations)
		}
	}
	if len(after.GetManagedFields()) == 0 { // Readers do not get them.
		replaceField(object["metadata"].(map[string]any), old.object["metadata"].(map[string]any), "managedFields")
	}
	after.SetUID(before.GetUID())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetGeneration(before.GetGeneration())
	if same(object, old.object) { // Nothing changes, so there is no event.
		return old, nil
	}
	if changedSpec(object, old.object) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 && !s.heldNamespace(gvk, object) {
		s.put(gvk, key, nil)
		return &version{object: object}, nil
	}
	return s.put(gvk, key, object), nil
}

// heldNamespace reports whether the object is a namespace whose content has not been removed yet.
func (s *store) heldNamespace(gvk schema.GroupVersionKind, object map[string]any) bool {
	left, _, _ := unstructured.NestedStringSlice(object, "spec", "finalizers")
	return gvk == namespaceKind && len(left) > 0
}

// replaceField sets a field of to to its value in from, or removes it if from has none.
func replaceField(to, from map[string]any, field string) {
	if delete(to, field); from[field] != nil {
		to[field] = runtime.DeepCopyJSONValue(from[field])
	}
}

// same compares objects, but not who owns their fields.
func same(a, b map[string]any) bool {
	strip := func(o map[string]any) map[string]any {
		o = maps.Clone(o)
		m, _ := o["metadata"].(map[string]any)
		m = maps.Clone(m)
		delete(m, "managedFields")
		for field, value := range m {
			if empty(value) {
				delete(m, field)
			}
		}
		o["metadata"] = m
		for field, value := range o {
			if empty(value) {
				delete(o, field)
			}
		}
		return o
	}
	return reflect.DeepEqual(strip(a), strip(b))
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// changedSpec reports whether anything but metadata and status differs, of a kind that has a generation.
func changedSpec(a, b map[string]any) bool {
	if a["spec"] == nil && b["spec"] == nil {
		return false
	}
	strip := func(o map[string]any) map[string]any {
		o = maps.Clone(o)
		delete(o, "metadata")
		delete(o, "status")
		return o
	}
	return !reflect.DeepEqual(strip(a), strip(b))
}

// hasStatus reports whether a kind has a subresource for its status: the typed ones with such a field, and all others.
func (s *store) hasStatus(gvk schema.GroupVersionKind) bool {
	o, err := s.scheme.New(gvk)
	if err != nil {
		return true
	}
	return reflect.ValueOf(o).Elem().Kind() == reflect.Struct && reflect.ValueOf(o).Elem().FieldByName("Status").IsValid()
}

// patch applies a patch of a client.
func (s *store) patch(
	gvk schema.GroupVersionKind, key types.NamespacedName, part string, kind types.PatchType, data []byte,
) (*version, error) {
	return s.update(gvk, key, part, func(old map[string]any) (map[string]any, error) {
		document, err := json.Marshal(old)
		must(err)
		var patched []byte
		switch kind {
		case types.MergePatchType:
			patched, err = jsonpatch.MergePatch(document, data)
		case types.JSONPatchType:
			var operations jsonpatch.Patch
			if operations, err = jsonpatch.DecodePatch(data); err == nil {
				if patched, err = operations.Apply(document); err != nil { // A failed test, or a path that does not exist.
					return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
						err.Error(), 0, false)
				}
			}
		case types.StrategicMergePatchType:
			var like runtime.Object
			if like, err = s.scheme.New(gvk); err == nil {
				patched, err = strategicpatch.StrategicMergePatch(document, data, like)
			}
		default:
			err = fmt.Errorf("patches of type %s are not supported", kind)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		out := map[string]any{}
		must(utiljson.Unmarshal(patched, &out))
		return s.normal(gvk, out)
	})
}

// normal encodes an object as its type does, so that objects with the same meaning are equal.
func (s *store) normal(gvk schema.GroupVersionKind, object map[string]any) (map[string]any, error) {
	o, err := s.scheme.New(gvk)
	if err != nil {
		return object, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return encode(o, gvk), nil
}

// converters know the types of Kubernetes; lists of all others belong to one owner as a whole.
var converters = sync.OnceValue(func() []managedfields.TypeConverter {
	known := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(known))
	return []managedfields.TypeConverter{
		applyconfigurations.NewTypeConverter(known), managedfields.NewDeducedTypeConverter(),
	}
})

type converter struct{}

func (converter) ObjectToTyped(o runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	v, err := converters()[0].ObjectToTyped(o, opts...)
	if err != nil {
		return converters()[1].ObjectToTyped(o, opts...)
	}
	return v, nil
}

func (converter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return converters()[1].TypedToObject(v)
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

// apply is a server-side apply.
func (s *store) apply(
	gvk schema.GroupVersionKind, object map[string]any, part, owner string, force bool, at time.Time,
) (*version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &unstructured.Unstructured{Object: object}
	key := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	id, now := applyKey{gvk, key, part, owner}, applied{wanted: runtime.DeepCopyJSON(object), force: force}
	if last := s.applied[id]; last.result != nil && last.result == s.kind(gvk).live[key] && last.force == force &&
		reflect.DeepEqual(last.wanted, object) {
		return last.result, nil
	}
	out, err := s.applyLocked(gvk, u, key, part, owner, force, at)
	if now.result = s.kind(gvk).live[key]; err == nil {
		s.applied[id] = now
	}
	return out, err
}

func (s *store) applyLocked(
	gvk schema.GroupVersionKind, wanted *unstructured.Unstructured, key types.NamespacedName, part, owner string,
	force bool, now time.Time,
) (*version, error) {
	manager, err := managedfields.NewDefaultFieldManager(converter{}, s.scheme, noDefaults{}, unstructuredscheme{}, gvk,
		gvk.GroupVersion(), part, nil)
	must(err)
	merge := func(old map[string]any) (map[string]any, error) {
		merged, err := manager.Apply(&unstructured.Unstructured{Object: old}, wanted, owner, force)
		if err != nil {
			return nil, err
		}
		out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(merged)
		must(err)
		return s.normal(gvk, out)
	}
	if s.kind(gvk).live[key] == nil {
		fresh := &unstructured.Unstructured{Object: map[string]any{}}
		fresh.SetGroupVersionKind(gvk)
		out, err := merge(fresh.Object)
		if err != nil {
			return nil, err
		}
		return s.createLocked(gvk, out, now)
	}
	return s.updateLocked(gvk, key, part, merge)
}

// unstructuredscheme creates the objects that are merged.
type unstructuredscheme struct{}

func (unstructuredscheme) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// remove deletes an object, or marks it for deletion as long as it has finalizers.
func (s *store) remove(
	gvk schema.GroupVersionKind, key types.NamespacedName, preconditions *metav1.Preconditions, now time.Time,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.kind(gvk).live[key]
	if old == nil {
		return apierrors.NewNotFound(resource(gvk), key.Name)
	}
	u := old.meta()
	if p := preconditions; p != nil && (p.UID != nil && *p.UID != u.GetUID() ||
		p.ResourceVersion != nil && *p.ResourceVersion != u.GetResourceVersion()) {
		return apierrors.NewConflict(resource(gvk), key.Name, errors.New("Precondition failed"))
	}
	if len(u.GetFinalizers()) == 0 && !s.heldNamespace(gvk, old.object) {
		s.put(gvk, key, nil)
		return nil
	}
	if u.GetDeletionTimestamp() != nil {
		return nil
	}
	marked := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(old.object)}
	marked.SetDeletionTimestamp(&metav1.Time{Time: now})
	if u.GetGeneration() > 0 {
		marked.SetGeneration(u.GetGeneration() + 1)
	}
	s.put(gvk, key, marked.Object)
	return nil
}

// annotationTouched changes when another client writes an object.
const annotationTouched = "sim.hortus.dev/touched"

// touch writes an object like another client would, without a relevant change.
func (s *store) touch(gvk schema.GroupVersionKind, key types.NamespacedName) {
	_, _ = s.update(gvk, key, "", func(o map[string]any) (map[string]any, error) {
		u := &unstructured.Unstructured{Object: o}
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		n, _ := strconv.Atoi(annotations[annotationTouched])
		annotations[annotationTouched] = strconv.Itoa(n + 1)
		u.SetAnnotations(annotations)
		return o, nil
	}) // One that is gone is not touched.
}
