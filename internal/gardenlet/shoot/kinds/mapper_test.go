package kinds_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/cleanup"
	"hortus.dev/hortus/internal/gardenlet/shoot/kinds"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// used are the kinds that the gardenlet lists in Shoots.
func used(t *testing.T) []schema.GroupVersionKind {
	t.Helper()
	all := []schema.GroupVersionKind{
		{Version: "v1", Kind: "Node"}, {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Secret"},
		{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	}
	for _, name := range []string{
		cleanup.Webhooks, cleanup.ExtendedAPIs, cleanup.KubernetesResources, cleanup.VolumeSnapshots,
	} {
		step, _, err := cleanup.Plan(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, step.Kinds...)
	}
	return all
}

// definition of a resource in 8 versions with the given number of short names.
func definition(
	group, plural string, shortNames int, scope apiextensionsv1.ResourceScope,
) *apiextensionsv1.CustomResourceDefinition {
	keep := true
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: "Kind" + plural},
		},
	}
	for i := range shortNames {
		d.Spec.Names.ShortNames = append(d.Spec.Names.ShortNames, fmt.Sprintf("a%062d", i))
	}
	for i := range 8 {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: fmt.Sprintf("v%d", i+1), Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep},
			},
		})
	}
	return d
}

// create creates the definition and waits until its resource is served.
func create(t *testing.T, e *env.Environment, d *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if err := e.Client.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Client.Delete(context.WithoutCancel(t.Context()), d) })
	server, err := discovery.NewDiscoveryClientForConfig(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	named := func(r metav1.APIResource) bool { return r.Name == d.Spec.Names.Plural }
	served := func(context.Context) (bool, error) {
		list, err := server.ServerResourcesForGroupVersion(d.Spec.Group + "/v8")
		return err == nil && slices.ContainsFunc(list.APIResources, named), nil
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, served)
	if err != nil {
		t.Fatalf("%s is not served: %v", d.Name, err)
	}
}

// connect returns a client like the gardenlet's for a Shoot.
func connect(t *testing.T, e *env.Environment) client.Client {
	t.Helper()
	c, err := (&shoot.Connector{Scheme: e.Scheme}).Connect(e.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKindsAreKnown compares the table with the discovery of a real server, and checks that the kinds that the
// gardenlet uses need no discovery.
func TestKindsAreKnown(t *testing.T) {
	e := env.Shared(t)
	httpClient, err := rest.HTTPClientFor(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiutil.NewDynamicRESTMapper(e.Config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	known := kinds.NewMapper(nil) // Discovery would panic.
	for _, gvk := range used(t) {
		got, err := known.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			t.Fatal(err)
		}
		if kind, err := known.KindFor(got.Resource.GroupResource().WithVersion("")); err != nil || kind != gvk {
			t.Errorf("the kind of %s = %s, error %v", got.Resource, kind, err)
		}
		want, err := server.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) && gvk.Group == "snapshot.storage.k8s.io" {
			continue // Storage drivers install it.
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Resource != want.Resource || got.Scope.Name() != want.Scope.Name() {
			t.Errorf("%s is %s %s, want %s %s", gvk, got.Scope.Name(), got.Resource, want.Scope.Name(), want.Resource)
		}
	}
}

// TestOtherKinds covers kinds whose encryption an owner configures.
func TestOtherKinds(t *testing.T) {
	e := env.Shared(t)
	create(t, e, definition("other.example.org", "things", 0, apiextensionsv1.ClusterScoped))
	c := connect(t, e)
	mapper := c.RESTMapper()
	for resource, want := range map[string]struct {
		gvk   schema.GroupVersionKind
		scope meta.RESTScopeName
	}{
		"configmaps": {schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNameNamespace},
		"namespaces": {schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeNameRoot},
		"events":     {schema.GroupVersionKind{Version: "v1", Kind: "Event"}, meta.RESTScopeNameNamespace},
		"roles.rbac.authorization.k8s.io": {
			schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
			meta.RESTScopeNameNamespace,
		},
		"things.other.example.org": {
			schema.GroupVersionKind{Group: "other.example.org", Version: "v8", Kind: "Kindthings"}, meta.RESTScopeNameRoot,
		},
		"leases":                 {}, // Of the core group, which has no name.
		"no.other.example.org":   {},
		"no.nowhere.example.org": {},
	} {
		t.Run(resource, func(t *testing.T) {
			got, err := mapper.KindFor(schema.ParseGroupResource(resource).WithVersion(""))
			if want.gvk.Empty() {
				if !meta.IsNoMatchError(err) {
					t.Errorf("kind %s, error %v", got, err)
				}
				return
			}
			if err != nil || got != want.gvk {
				t.Fatalf("kind %s, error %v, want %s", got, err, want.gvk)
			}
			mapping, err := mapper.RESTMapping(got.GroupKind(), got.Version)
			if err != nil || mapping.Scope.Name() != want.scope ||
				mapping.Resource.GroupResource() != schema.ParseGroupResource(resource) {
				t.Errorf("mapping %+v, error %v, want scope %s", mapping, err, want.scope)
			}
		})
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{
		Group: "other.example.org", Kind: "None",
	}); !meta.IsNoMatchError(err) {
		t.Errorf("error %v for a kind that does not exist", err)
	}
	thing := &unstructured.Unstructured{}
	thing.SetGroupVersionKind(schema.GroupVersionKind{Group: "other.example.org", Version: "v8", Kind: "Kindthings"})
	thing.SetName("a")
	if err := c.Create(t.Context(), thing.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := c.Patch(t.Context(), thing, client.RawPatch(types.MergePatchType, []byte("{}"))); err != nil ||
		thing.GetUID() == "" {
		t.Errorf("write an object again: %v", err)
	}
}

// TestOwnersLockNobodyOut: the gardenlet can use a server even if its owner makes the discovery very large.
func TestOwnersLockNobodyOut(t *testing.T) {
	e := env.Shared(t)
	create(t, e, definition("large.example.org", "things", 10_000, apiextensionsv1.NamespaceScoped))

	// A client that discovers everything fails, and the error does not count as a page that is too large.
	config := rest.CopyConfig(e.Config)
	boundedlist.Bound(config)
	asksForAll, err := client.New(config, client.Options{Scheme: e.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	read := func(c client.Client, gvk schema.GroupVersionKind) error {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		visit := func(*metav1.PartialObjectMetadataList) (bool, error) { return true, nil }
		return boundedlist.Read(t.Context(), c, boundedlist.Limits{Bytes: 64 << 20}, list, visit)
	}
	err = read(asksForAll, schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	if _, tooMuch := err.(*boundedlist.TooMuchError); err == nil || tooMuch {
		t.Errorf("the discovery of all kinds ends with error %v", err)
	}

	c := connect(t, e)
	for _, gvk := range used(t) {
		if err := read(c, gvk); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("list %ss: %v", gvk.Kind, err)
		}
	}
	if _, err := c.RESTMapper().KindFor(schema.GroupVersionResource{Resource: "configmaps"}); err != nil {
		t.Error(err)
	}
}
