package sim

import (
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

type runtimeObject = runtime.Object

func labelsOf(o metav1.Object) labels.Set { return labels.Set(o.GetLabels()) }

// fill sets obj, of any form, to the content of the version.
func (s *store) fill(v *version, obj client.Object) {
	out := v.as(s.scheme, obj)
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(out).Elem())
}

// simClient reads and writes a cluster: for a process through its cache, and with the faults of the simulation; for the
// test itself directly.
type simClient struct {
	cluster *Cluster
	process *Process  // Nil for the test.
	cache   *simCache // Nil where all reads are direct.
}

var _ client.Client = &simClient{}

// Scheme implements client.Client.
func (c *simClient) Scheme() *runtime.Scheme { return c.cluster.store.scheme }

// RESTMapper implements client.Client.
func (c *simClient) RESTMapper() meta.RESTMapper { return c.cluster.mapper }

// GroupVersionKindFor implements client.Client.
func (c *simClient) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, c.Scheme())
}

// IsObjectNamespaced implements client.Client.
func (c *simClient) IsObjectNamespaced(o runtime.Object) (bool, error) {
	gvk, err := c.GroupVersionKindFor(o)
	return namespaced(gvk), err
}

// cached reports whether reads of this kind go to the cache, as in the client of a manager.
func (c *simClient) cached(gvk schema.GroupVersionKind, o any) bool {
	return c.cache != nil && formOf(o) != formUnstructured && !(c.cluster.uncached[gvk] && formOf(o) == formTyped)
}

// Get implements client.Client.
func (c *simClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	if c.cached(gvk, obj) {
		return c.cache.Get(ctx, key, obj, opts...)
	}
	return c.access(ctx, operation{verb: "get", gvk: gvk, key: key}, func() error {
		found, err := c.cluster.store.get(gvk, key)
		if err != nil {
			return err
		}
		c.cluster.store.fill(found, obj)
		return nil
	})
}

// List implements client.Client.
func (c *simClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := kindOfList(list, c.cluster)
	if err != nil {
		return err
	}
	if c.cached(gvk, list) {
		return c.cache.List(ctx, list, opts...)
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	return c.access(ctx, operation{verb: "list", gvk: gvk}, func() error {
		matches := func(r fields.Requirement, object client.Object) (bool, error) {
			value, _, err := unstructured.NestedString(encode(object, gvk), strings.Split(r.Field, ".")...)
			return value == r.Value, err
		}
		return c.cluster.store.fillList(gvk, c.listed(gvk, o), list, o, matches)
	})
}

// listed are the newest versions or, if the options allow that, older ones, as from the watch cache of a server.
func (c *simClient) listed(gvk schema.GroupVersionKind, o client.ListOptions) []*version {
	if c.process == nil || o.Raw == nil || o.Raw.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		return c.cluster.store.list(gvk)
	}
	behind := c.process.world.behind(c.process, c.cluster, gvk)
	revision, err := strconv.ParseInt(o.Raw.ResourceVersion, 10, 64)
	if err != nil || behind == 0 {
		return c.cluster.store.list(gvk)
	}
	return c.cluster.store.listAt(gvk, revision, behind)
}

// Create implements client.Client.
func (c *simClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := client.CreateOptions{}
	o.ApplyOptions(opts)
	if len(o.DryRun) > 0 {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	return c.access(ctx, operation{verb: "create", gvk: gvk, key: key, write: true}, func() error {
		object := encode(obj, gvk)
		if c.process != nil && c.cluster.store.hasStatus(gvk) {
			delete(object, "status")
		}
		v, err := c.cluster.store.create(gvk, object, time.Now())
		if err == nil {
			c.cluster.store.fill(v, obj)
		}
		return err
	})
}

// Update implements client.Client.
func (c *simClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	o := client.UpdateOptions{}
	o.ApplyOptions(opts)
	return c.update(ctx, obj, "", o.DryRun)
}

func (c *simClient) update(ctx context.Context, obj client.Object, part string, dryRun []string) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	if len(dryRun) > 0 {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	return c.access(ctx, operation{verb: "update", gvk: gvk, key: key, part: part, write: true}, func() error {
		v, err := c.cluster.store.update(gvk, key, part, func(map[string]any) (map[string]any, error) {
			return encode(obj, gvk), nil
		})
		if err == nil {
			c.cluster.store.fill(v, obj)
		}
		return err
	})
}

// Patch implements client.Client.
func (c *simClient) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	o := client.PatchOptions{}
	o.ApplyOptions(opts)
	return c.patch(ctx, obj, patch, "", o)
}

func (c *simClient) patch(
	ctx context.Context, obj client.Object, patch client.Patch, part string, o client.PatchOptions,
) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	data, err := patch.Data(obj)
	if err != nil || len(o.DryRun) > 0 {
		return err
	}
	key := client.ObjectKeyFromObject(obj)
	return c.access(ctx, operation{verb: "patch", gvk: gvk, key: key, part: part, write: true}, func() error {
		var v *version
		var err error
		if patch.Type() == types.ApplyPatchType {
			object := map[string]any{}
			must(utiljson.Unmarshal(data, &object))
			v, err = c.cluster.store.apply(gvk, object, part, o.FieldManager, o.Force != nil && *o.Force, time.Now())
		} else {
			v, err = c.cluster.store.patch(gvk, key, part, patch.Type(), data)
		}
		if err == nil {
			c.cluster.store.fill(v, obj)
		}
		return err
	})
}

// Apply implements client.Client.
func (c *simClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	o := client.ApplyOptions{}
	o.ApplyOptions(opts)
	inner, err := innerOf(obj)
	if err != nil || len(o.DryRun) > 0 {
		return err
	}
	u := &unstructured.Unstructured{Object: plain(inner.Object).(map[string]any)}
	storeStringData(u)
	gvk, key := u.GroupVersionKind(), client.ObjectKeyFromObject(u)
	return c.access(ctx, operation{verb: "apply", gvk: gvk, key: key, write: true}, func() error {
		v, err := c.cluster.store.apply(gvk, u.Object, "", o.FieldManager, o.Force != nil && *o.Force, time.Now())
		if err == nil {
			inner.Object = v.as(c.Scheme(), u).(*unstructured.Unstructured).Object
		}
		return err
	})
}

// innerOf returns what client.ApplyConfigurationFromUnstructured has wrapped.
func innerOf(obj runtime.ApplyConfiguration) (*unstructured.Unstructured, error) {
	if inner := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Unstructured"); inner.IsValid() {
		return inner.Interface().(*unstructured.Unstructured), nil
	}
	return nil, fmt.Errorf("%T cannot be applied in a simulation, only unstructured objects can", obj)
}

// storeStringData moves the texts of a Secret to its data, as an API server does.
func storeStringData(u *unstructured.Unstructured) {
	texts, found, err := unstructured.NestedStringMap(u.Object, "stringData")
	if u.GetKind() != "Secret" || !found || err != nil {
		return
	}
	data, _ := u.Object["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	for key, text := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	u.Object["data"] = data
	delete(u.Object, "stringData")
}

// plain returns a copy of JSON values with the types that a decoder gives them: numbers are int64 if they can be.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, one := range v {
			out[key] = plain(one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = plain(one)
		}
		return out
	case int:
		return int64(v)
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// Delete implements client.Client.
func (c *simClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := client.DeleteOptions{}
	o.ApplyOptions(opts)
	if len(o.DryRun) > 0 {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	return c.access(ctx, operation{verb: "delete", gvk: gvk, key: key, write: true}, func() error {
		return c.cluster.store.remove(gvk, key, o.Preconditions, time.Now())
	})
}

// DeleteAllOf implements client.Client.
func (c *simClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := client.DeleteAllOfOptions{}
	o.ApplyOptions(opts)
	return c.access(ctx, operation{verb: "deletecollection", gvk: gvk, write: true}, func() error {
		for _, v := range c.cluster.store.list(gvk) {
			m := v.meta()
			if o.Namespace != "" && m.GetNamespace() != o.Namespace ||
				o.LabelSelector != nil && !o.LabelSelector.Matches(labelsOf(m)) {
				continue
			}
			if err := c.cluster.store.remove(gvk, client.ObjectKeyFromObject(m), nil, time.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// Status implements client.Client.
func (c *simClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *simClient) SubResource(name string) client.SubResourceClient { return &part{c, name} }

// part is a subresource. Any except "status", "approval" and "token" stands for the whole object.
type part struct {
	*simClient
	name string
}

func (p *part) Get(_ context.Context, obj, _ client.Object, _ ...client.SubResourceGetOption) error {
	return fmt.Errorf("subresource %s of %T cannot be read in a simulation", p.name, obj)
}

// Create implements client.SubResourceWriter, for tokens.
func (p *part) Create(
	ctx context.Context, obj, body client.Object, _ ...client.SubResourceCreateOption,
) error {
	request, ok := body.(*authenticationv1.TokenRequest)
	if !ok || p.name != "token" {
		return fmt.Errorf("subresource %s of %T cannot be created in a simulation", p.name, obj)
	}
	gvk, err := p.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(obj)
	return p.access(ctx, operation{verb: "create", gvk: gvk, key: key, part: "token", write: true}, func() error {
		account, err := p.cluster.store.get(gvk, key)
		if err != nil {
			return err
		}
		lifetime := time.Hour
		if s := request.Spec.ExpirationSeconds; s != nil {
			lifetime = time.Duration(*s) * time.Second
		}
		expires := time.Now().Add(lifetime).UTC()
		request.Status.ExpirationTimestamp = metav1.NewTime(expires)
		request.Status.Token = fmt.Sprintf("%s/%s/%s", key, account.meta().GetUID(), expires.Format(time.RFC3339))
		return nil
	})
}

// Update implements client.SubResourceWriter.
func (p *part) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	o := client.SubResourceUpdateOptions{}
	o.ApplyOptions(opts)
	if o.SubResourceBody != nil {
		obj = o.SubResourceBody
	}
	return p.update(ctx, obj, p.stored(), o.DryRun)
}

// Patch implements client.SubResourceWriter.
func (p *part) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	o := client.SubResourcePatchOptions{}
	o.ApplyOptions(opts)
	return p.patch(ctx, obj, patch, p.stored(), o.PatchOptions)
}

// Apply implements client.SubResourceWriter.
func (p *part) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return fmt.Errorf("subresource %s cannot be applied in a simulation", p.name)
}

func (p *part) stored() string {
	if p.name == "status" || p.name == "approval" {
		return p.name
	}
	return ""
}

// operation is one request to an API server.
type operation struct {
	verb  string
	gvk   schema.GroupVersionKind
	key   types.NamespacedName
	part  string
	write bool
}

func (o operation) String() string {
	kind := o.gvk.Kind
	if o.part != "" {
		kind += "/" + o.part
	}
	return fmt.Sprintf("%s %s %s", o.verb, kind, strings.TrimPrefix(o.key.String(), "/"))
}

// access carries out an operation, with the fault that the simulation chooses for it.
func (c *simClient) access(ctx context.Context, o operation, do func() error) error {
	if c.process == nil {
		return do()
	}
	return c.process.access(ctx, c.cluster, o, do)
}

// Errors of faults are those that clients see in production.

func notDone() error {
	return apierrors.NewServerTimeout(schema.GroupResource{Resource: "requests"}, "", 1)
}

func answerLost() error {
	return apierrors.NewTimeoutError("the answer was lost: unexpected EOF", 0)
}
