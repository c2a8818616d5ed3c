package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ApplyCache applies objects like Apply, but only reads those that still are as it has left them. A flow that looks at
// everything in every pass costs the server little that way: a read is a fraction of a server-side apply.
//
// What others change is noticed: spec and metadata by the object's generation and content, kinds without a generation
// by their resource version. It is safe for concurrent use. The zero value is ready.
type ApplyCache struct {
	mu      sync.Mutex
	entries map[applyKey]applied
}

type applyKey struct {
	kind schema.GroupVersionKind
	name client.ObjectKey
}

// applied is what was applied last, and how the object was afterwards.
type applied struct {
	desired [sha256.Size]byte
	// occasion is that of the last [ApplyCache.Rewrite].
	occasion        string
	uid             string
	resourceVersion string
	generation      int64
	labels          map[string]string
	annotations     map[string]string
}

// Apply makes obj's fields so on the server and stores the server's object in obj.
func (a *ApplyCache) Apply(ctx context.Context, c client.Client, obj client.Object, owner string) error {
	return a.apply(ctx, c, obj, owner, "", nil)
}

// Rewrite is Apply for a Deployment that webhooks may change. On every new occasion it is written, though it may still
// be as it was left, and its spec is replaced: webhooks act again, and what they have added to lists and maps, which an
// apply would keep since it belongs to nobody, goes if they do not add it again.
func (a *ApplyCache) Rewrite(
	ctx context.Context, c client.Client, d *appsv1.Deployment, owner, occasion string,
) error {
	wanted := d.DeepCopy()
	return a.apply(ctx, c, d, owner, occasion, func() error { return replaceSpec(ctx, c, d, wanted, owner) })
}

// keptOnTemplate is what "kubectl rollout restart" sets. Without it the pods would be replaced a second time.
const keptOnTemplate = "kubectl.kubernetes.io/restartedAt"

// replaceSpec makes the spec of a Deployment the wanted one, but for what people and other steps set, and stores the
// server's answer in live.
func replaceSpec(ctx context.Context, c client.Client, live, wanted *appsv1.Deployment, owner string) error {
	wanted.Spec.Paused = live.Spec.Paused
	if at, ok := live.Spec.Template.Annotations[keptOnTemplate]; ok {
		metav1.SetMetaDataAnnotation(&wanted.Spec.Template.ObjectMeta, keptOnTemplate, at)
	}
	// A patch, since an update would conflict with each change of the status.
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": wanted.Spec}})
	if err != nil {
		return fmt.Errorf("encode spec of Deployment %s: %w", client.ObjectKeyFromObject(live), err)
	}
	answer := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: live.Name, Namespace: live.Namespace}}
	if err := c.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("replace spec of Deployment %s: %w", client.ObjectKeyFromObject(live), err)
	}
	*live = *answer
	return nil
}

// apply calls after, if there is one, when the occasion is a new one.
func (a *ApplyCache) apply(
	ctx context.Context, c client.Client, obj client.Object, owner, occasion string, after func() error,
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
	fresh := after != nil && (!ok || last.occasion != occasion)
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
	if err := Apply(ctx, c, obj, owner); err != nil {
		return err
	}
	if fresh {
		if err := after(); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
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

// still tells whether nobody has touched what an apply could have set.
func (a applied) still(live client.Object) bool {
	if live.GetDeletionTimestamp() != nil || string(live.GetUID()) != a.uid {
		return false
	}
	if live.GetResourceVersion() == a.resourceVersion {
		return true
	}
	// A status has been written. Only kinds with a generation tell that from a change of the rest.
	return a.generation > 0 && live.GetGeneration() == a.generation && maps.Equal(live.GetLabels(), a.labels) &&
		maps.Equal(live.GetAnnotations(), a.annotations)
}

// Forget drops what is known about a namespace and the cluster-scoped object of the same name.
func (a *ApplyCache) Forget(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.entries {
		if key.name.Namespace == namespace || key.name.Namespace == "" && key.name.Name == namespace {
			delete(a.entries, key)
		}
	}
}
