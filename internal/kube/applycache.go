package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
	desired         [sha256.Size]byte
	uid             string
	resourceVersion string
	generation      int64
	labels          map[string]string
	annotations     map[string]string
}

// Apply makes obj's fields so on the server and stores the server's object in obj.
func (a *ApplyCache) Apply(ctx context.Context, c client.Client, obj client.Object, owner string) error {
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
	if ok && last.desired == desired {
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.entries == nil {
		a.entries = map[applyKey]applied{}
	}
	a.entries[key] = applied{
		desired: desired, uid: string(obj.GetUID()), resourceVersion: obj.GetResourceVersion(),
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
