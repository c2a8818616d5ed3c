package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Cluster is a simulated API server. Its Client reads and writes it directly, and without faults.
type Cluster struct {
	client.Client

	world    *World
	name     string
	store    *store
	mapper   meta.RESTMapper
	uncached map[schema.GroupVersionKind]bool
	missing  map[schema.GroupVersionKind]bool // Kinds without an API.
	writes   int                              // Guarded by the lock of the world.
}

// Uncached makes processes read objects of these kinds from the API server, as managers do with
// client.CacheOptions.DisableFor.
func (c *Cluster) Uncached(objects ...client.Object) *Cluster {
	for _, o := range objects {
		gvk, err := apiutil.GVKForObject(o, c.store.scheme)
		must(err)
		c.uncached[gvk] = true
	}
	return c
}

// StatusHasAnnotations makes requests to the status of a kind write annotations, too.
func (c *Cluster) StatusHasAnnotations(o client.Object) {
	gvk, err := apiutil.GVKForObject(o, c.store.scheme)
	must(err)
	c.store.annotated[gvk] = true
}

// Define adds the API of a namespaced kind to the cluster, as a CustomResourceDefinition does.
func (c *Cluster) Define(gvk schema.GroupVersionKind) {
	c.setMissing(gvk, false)
	c.mapper.(*mapper).Add(gvk, meta.RESTScopeNamespace)
}

// Undefine deletes all objects of a kind, and then its API.
func (c *Cluster) Undefine(gvk schema.GroupVersionKind) {
	c.world.T.Helper()
	for _, v := range c.store.list(gvk) {
		key := client.ObjectKeyFromObject(v.meta())
		_, err := c.store.update(gvk, key, "", func(o map[string]any) (map[string]any, error) {
			(&unstructured.Unstructured{Object: o}).SetFinalizers(nil)
			return o, nil
		})
		if err == nil {
			err = c.store.remove(gvk, key, nil, time.Now())
		}
		if client.IgnoreNotFound(err) != nil {
			c.world.fatalf("delete %s %s: %v", gvk.Kind, key, err)
		}
	}
	c.setMissing(gvk, true)
}

func (c *Cluster) setMissing(gvk schema.GroupVersionKind, missing bool) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.missing[gvk] = missing
}

// defined is an error if the API of a kind is missing.
func (c *Cluster) defined(gvk schema.GroupVersionKind) error {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if c.missing[gvk] {
		return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return nil
}

// Writes is the number of requests by which processes have written to the cluster, or have tried to.
func (c *Cluster) Writes() int {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.writes
}

// Changes is the number of changes that have been made in the cluster, by anybody.
func (c *Cluster) Changes() int64 { return c.store.revision() }

// Add creates objects as they are, with their status.
func (c *Cluster) Add(objects ...client.Object) {
	c.world.T.Helper()
	for _, o := range objects {
		if err := c.Create(context.Background(), o); err != nil {
			c.world.fatalf("add %T %s: %v", o, o.GetName(), err)
		}
	}
}

// AddNamespaces creates namespaces.
func (c *Cluster) AddNamespaces(names ...string) {
	for _, name := range names {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(namespaceKind)
		u.SetName(name)
		c.Add(u)
	}
}

// finishNamespaces does the work of the namespace controller: it removes the content of namespaces in deletion.
func (c *Cluster) finishNamespaces(ctx context.Context, _ client.Client) error {
	for _, ns := range c.store.list(namespaceKind) {
		if ns.meta().GetDeletionTimestamp() == nil {
			continue
		}
		left := false
		for _, gvk := range c.store.known() {
			for _, v := range c.store.list(gvk) {
				m := v.meta()
				if m.GetNamespace() != ns.meta().GetName() {
					continue
				}
				left = true
				if m.GetDeletionTimestamp() == nil {
					if err := c.store.remove(gvk, client.ObjectKeyFromObject(m), nil, time.Now()); err != nil {
						return err
					}
				}
			}
		}
		if !left {
			key := types.NamespacedName{Name: ns.meta().GetName()}
			if _, err := c.store.update(namespaceKind, key, "", func(o map[string]any) (map[string]any, error) {
				unstructured.RemoveNestedField(o, "spec", "finalizers")
				return o, nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// collectGarbage deletes objects whose owners are gone.
func (c *Cluster) collectGarbage(context.Context, client.Client) error {
	living := map[types.UID]bool{}
	for _, gvk := range c.store.known() {
		for _, v := range c.store.list(gvk) {
			living[v.meta().GetUID()] = true
		}
	}
	for _, gvk := range c.store.known() {
		for _, v := range c.store.list(gvk) {
			m := v.meta()
			owners := m.GetOwnerReferences()
			gone := len(owners) > 0 && m.GetDeletionTimestamp() == nil
			for _, o := range owners {
				gone = gone && !living[o.UID]
			}
			if gone {
				if err := c.store.remove(gvk, client.ObjectKeyFromObject(m), nil, time.Now()); err != nil &&
					!apierrors.IsNotFound(err) {
					return err
				}
			}
		}
	}
	return nil
}

// known returns the kinds with objects, sorted.
func (s *store) known() (out []schema.GroupVersionKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gvk := range s.kinds {
		out = append(out, gvk)
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// Edit reads an object, changes it and writes it back. The change is made to o.
func (c *Cluster) Edit(o client.Object, change func()) error {
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	change()
	return c.Update(context.Background(), o)
}

// EditStatus is Edit for the status.
func (c *Cluster) EditStatus(o client.Object, change func()) error {
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	change()
	return c.Status().Update(context.Background(), o)
}

// Exists reads an object and reports whether it exists.
func (c *Cluster) Exists(o client.Object) bool {
	err := c.Get(context.Background(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		c.world.failf("read %T %s: %v", o, o.GetName(), err)
	}
	return err == nil
}

// Gone fails unless none of the objects exists.
func (c *Cluster) Gone(objects ...client.Object) error {
	for _, o := range objects {
		if c.Exists(o) {
			return fmt.Errorf("%T %s is left", o, client.ObjectKeyFromObject(o))
		}
	}
	return nil
}
