package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ApplyCache applies objects like Apply, but only reads those that have not changed since the last apply. A flow checks
// everything in every pass; this keeps the load on the server low, because a read costs a fraction of a server-side
// apply.
//
// It detects changes by others: by the object's generation, labels and annotations, or for kinds without a generation
// by the resource version. It is safe for concurrent use. The zero value is ready to use.
type ApplyCache struct {
	mu      sync.Mutex
	entries map[applyKey]applied
	// deleting has the objects whose deletion [ApplyCache.Delete] has logged, and that were not gone then.
	deleting map[applyKey]bool
}

type applyKey struct {
	kind schema.GroupVersionKind
	name client.ObjectKey
}

// applied is the last applied configuration, and the state of the object after the apply.
type applied struct {
	desired [sha256.Size]byte
	// occasion is the occasion of the last [ApplyCache.Rewrite].
	occasion        string
	uid             string
	resourceVersion string
	generation      int64
	labels          map[string]string
	annotations     map[string]string
}

// Apply applies obj's fields with server-side apply and stores the server's object in obj.
func (a *ApplyCache) Apply(ctx context.Context, c client.Client, obj client.Object, owner string) error {
	return a.apply(ctx, c, obj, owner, "", nil)
}

// Rewrite is Apply for a Deployment or a StatefulSet that webhooks may change. On a new occasion it writes the object
// even if nothing has changed, and replaces its spec, so that webhooks are called again. An apply would keep entries
// that webhooks have added to lists and maps, because no field manager owns them; replacing the spec removes those that
// are not added again. Such an entry may depend on what is no longer wanted, for instance a container on a volume: then
// an apply is refused, and the spec is replaced first.
func (a *ApplyCache) Rewrite(ctx context.Context, c client.Client, o client.Object, owner, occasion string) error {
	wanted := o.DeepCopyObject().(client.Object)
	return a.apply(ctx, c, o, owner, occasion, func(live client.Object) error {
		return replaceSpec(ctx, c, live, wanted, owner)
	})
}

// keptOnTemplate is set by "kubectl rollout restart". Without it the pods would be replaced a second time.
const keptOnTemplate = "kubectl.kubernetes.io/restartedAt"

// replaceSpec replaces the spec of an object by the wanted one, except for what specFor keeps, and stores the response
// in live.
func replaceSpec(ctx context.Context, c client.Client, live, wanted client.Object, owner string) error {
	// A patch, because an update would conflict with every change of the status.
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": specFor(live, wanted)}})
	if err != nil {
		return fmt.Errorf("encode spec of %s: %w", describe(live, c.Scheme()), err)
	}
	answer := live.DeepCopyObject().(client.Object)
	if err := c.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("replace spec of %s: %w", describe(live, c.Scheme()), err)
	}
	reflect.ValueOf(live).Elem().Set(reflect.ValueOf(answer).Elem())
	return nil
}

// specFor returns the wanted spec with what is kept of the live one: paused and keptOnTemplate, which users and other
// steps set, and the volumes of a StatefulSet, which cannot be changed.
func specFor(live, wanted client.Object) any {
	keepOnTemplate := func(live, wanted *metav1.ObjectMeta) {
		if at, ok := live.Annotations[keptOnTemplate]; ok {
			metav1.SetMetaDataAnnotation(wanted, keptOnTemplate, at)
		}
	}
	switch wanted := wanted.(type) {
	case *appsv1.Deployment:
		live := live.(*appsv1.Deployment)
		wanted.Spec.Paused = live.Spec.Paused
		keepOnTemplate(&live.Spec.Template.ObjectMeta, &wanted.Spec.Template.ObjectMeta)
		return wanted.Spec
	case *appsv1.StatefulSet:
		live := live.(*appsv1.StatefulSet)
		wanted.Spec.VolumeClaimTemplates = live.Spec.VolumeClaimTemplates
		keepOnTemplate(&live.Spec.Template.ObjectMeta, &wanted.Spec.Template.ObjectMeta)
		return wanted.Spec
	}
	panic(fmt.Sprintf("kube: Rewrite of %T", wanted)) // The callers pass one of the two.
}

// apply calls replace, unless it is nil, if the occasion is new.
func (a *ApplyCache) apply(
	ctx context.Context, c client.Client, obj client.Object, owner, occasion string,
	replace func(live client.Object) error,
) error {
	u, err := applyConfiguration(obj, c.Scheme())
	if err != nil {
		return fmt.Errorf("apply %s: %w", describe(obj, c.Scheme()), err)
	}
	content, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("apply %s: %w", describe(obj, c.Scheme()), err)
	}
	key := applyKey{u.GroupVersionKind(), client.ObjectKeyFromObject(obj)}
	desired := sha256.Sum256(append(content, owner...))
	a.mu.Lock()
	last, ok := a.entries[key]
	a.mu.Unlock()
	fresh := replace != nil && (!ok || last.occasion != occasion)
	if ok && last.desired == desired && !fresh {
		live := obj.DeepCopyObject().(client.Object)
		found, err := Exists(ctx, c, live)
		if err != nil {
			return err
		}
		if found && last.still(live) {
			reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(live).Elem())
			return nil
		}
	}
	err = Apply(ctx, c, obj, owner)
	refused := fresh && apierrors.IsInvalid(err)
	if refused {
		live := obj.DeepCopyObject().(client.Object)
		if found, readErr := Exists(ctx, c, live); readErr != nil || !found {
			return errors.Join(err, readErr)
		}
		if err := replace(live); err != nil {
			return err
		}
		err = Apply(ctx, c, obj, owner)
	}
	if err != nil {
		return err
	}
	if fresh && !refused {
		if err := replace(obj); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.deleting, key)
	if a.entries == nil {
		a.entries = map[applyKey]applied{}
	}
	a.entries[key] = applied{
		desired: desired, occasion: occasion, uid: string(obj.GetUID()), resourceVersion: obj.GetResourceVersion(),
		generation: obj.GetGeneration(),
		labels:     maps.Clone(obj.GetLabels()), annotations: maps.Clone(obj.GetAnnotations()),
	}
	return nil
}

// still reports whether the object is unchanged, apart from its status.
func (a applied) still(live client.Object) bool {
	if live.GetDeletionTimestamp() != nil || string(live.GetUID()) != a.uid {
		return false
	}
	if live.GetResourceVersion() == a.resourceVersion {
		return true
	}
	// Only the status has changed. Only kinds with a generation allow that conclusion.
	return a.generation > 0 && live.GetGeneration() == a.generation && maps.Equal(live.GetLabels(), a.labels) &&
		maps.Equal(live.GetAnnotations(), a.annotations)
}

// Delete is Delete, and logs the first request for an object. A flow requests a deletion in every pass until the object
// is gone; finalizers may let that take many passes.
func (a *ApplyCache) Delete(
	ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption,
) (gone bool, err error) {
	gone, err = Delete(ctx, c, obj, opts...)
	if err == nil && a.firstDeletion(c, obj, gone) {
		log.FromContext(ctx).Info("Deleting object", "object", describe(obj, c.Scheme()))
	}
	return gone, err
}

// firstDeletion reports whether a successful request has begun the deletion of an object. One that was read shows it.
// Others are remembered until they are gone; a new process logs their deletion once more.
func (a *ApplyCache) firstDeletion(c client.Client, obj client.Object, gone bool) bool {
	if obj.GetUID() != "" {
		return !gone && obj.GetDeletionTimestamp() == nil
	}
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return !gone
	}
	key := applyKey{kind, client.ObjectKeyFromObject(obj)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if gone {
		delete(a.deleting, key)
		return false
	}
	if a.deleting[key] {
		return false
	}
	if a.deleting == nil {
		a.deleting = map[applyKey]bool{}
	}
	a.deleting[key] = true
	return true
}

// Forget forgets the objects of a namespace and the cluster-scoped objects with the namespace's name.
func (a *ApplyCache) Forget(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	within := func(key applyKey) bool {
		return key.name.Namespace == namespace || key.name.Namespace == "" && key.name.Name == namespace
	}
	maps.DeleteFunc(a.entries, func(key applyKey, _ applied) bool { return within(key) })
	maps.DeleteFunc(a.deleting, func(key applyKey, _ bool) bool { return within(key) })
}
