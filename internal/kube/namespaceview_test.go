package kube

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// requests counts the requests to the server and records the resource versions of lists.
type requests struct {
	gets, lists int
	atLeast     []string
}

func viewed(t *testing.T, objects ...client.Object) (*NamespaceView, *requests, *Versions, client.Client) {
	t.Helper()
	seen, versions := &requests{}, &Versions{}
	server := fake.NewClientBuilder().WithObjects(objects...).Build()
	counting := interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			opts ...client.GetOption) error {
			seen.gets++
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			seen.lists++
			var o client.ListOptions
			o.ApplyOptions(opts)
			if o.Raw != nil {
				seen.atLeast = append(seen.atLeast, o.Raw.ResourceVersion)
			}
			return c.List(ctx, list, opts...)
		},
	})
	return NewNamespaceView(counting, "a", versions), seen, versions, server
}

func aConfigMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"name": name},
	}}
}

func TestNamespaceViewReadsAKindOnce(t *testing.T) {
	view, requests, _, _ := viewed(t, aConfigMap("a", "x"), aConfigMap("a", "y"), aConfigMap("b", "x"))
	ctx := t.Context()
	for _, name := range []string{"x", "y", "x"} {
		if found, err := Exists(ctx, view, aConfigMap("a", name)); err != nil || !found {
			t.Fatalf("ConfigMap %s: found %v, error %v", name, found, err)
		}
	}
	if err := view.Get(ctx, client.ObjectKey{Namespace: "a", Name: "z"}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get of a missing object = %v, want NotFound", err)
	}
	list := &corev1.ConfigMapList{}
	if err := view.List(ctx, list, client.InNamespace("a"), client.MatchingLabels{"name": "y"}); err != nil ||
		len(list.Items) != 1 {
		t.Errorf("List by label = %d items, error %v, want 1", len(list.Items), err)
	}
	if requests.gets != 0 || requests.lists != 1 {
		t.Errorf("the server got %d reads and %d lists, want only one list", requests.gets, requests.lists)
	}
	if found, err := Exists(ctx, view, aConfigMap("b", "x")); err != nil || !found || requests.gets != 1 {
		t.Errorf("outside the namespace: found %v, error %v, %d requests", found, err, requests.gets)
	}
}

func TestNamespaceViewSeesItsWrites(t *testing.T) {
	view, _, _, server := viewed(t, aConfigMap("a", "x"), aConfigMap("a", "y"), aConfigMap("a", "z"))
	ctx := t.Context()
	read := func(name string) string {
		t.Helper()
		m := aConfigMap("a", name)
		found, err := Exists(ctx, view, m)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatBool(found) + m.Data["k"]
	}
	if got := read("x"); got != "true" {
		t.Fatalf("read %q before any write", got)
	}
	changed := aConfigMap("a", "x")
	changed.Data = map[string]string{"k": "v"}
	for _, err := range []error{
		view.Patch(ctx, changed, client.MergeFrom(aConfigMap("a", "x"))),
		view.Create(ctx, aConfigMap("a", "new")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// Concurrent writes of others are visible to the next pass,
	if err := server.Delete(ctx, aConfigMap("a", "z")); err != nil {
		t.Fatal(err)
	}
	if got := read("z"); got != "true" {
		t.Errorf("the object that another client has deleted reads %q, want its first state", got)
	}
	// unless a deletion makes the view read again.
	if err := view.Delete(ctx, aConfigMap("a", "y")); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"x": read("x"), "new": read("new"), "y": read("y"), "z": read("z")}
	if diff := cmp.Diff(map[string]string{"x": "truev", "new": "true", "y": "false", "z": "false"}, got); diff != "" {
		t.Errorf("reads after writes (-want +got):\n%s", diff)
	}
	list := &corev1.ConfigMapList{}
	if err := view.List(ctx, list, client.InNamespace("a")); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range list.Items {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"new", "x"}, names); diff != "" {
		t.Errorf("list after writes (-want +got):\n%s", diff)
	}
}

// A later pass must not read older objects than an earlier pass has written, or a watch has reported.
func TestNamespaceViewIsNoOlderThanWhatIsKnown(t *testing.T) {
	view, requests, versions, _ := viewed(t, aConfigMap("a", "x"))
	ctx := t.Context()
	if _, err := Exists(ctx, view, aConfigMap("a", "x")); err != nil {
		t.Fatal(err)
	}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	versions.Observe(kind, "4711")
	versions.Observe(kind, "42")          // An older one changes nothing,
	versions.Observe(kind, "not-a-count") // nor does one that is not a number.
	next := NewNamespaceView(view.Client, "a", versions)
	if _, err := Exists(ctx, next, aConfigMap("a", "x")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "4711"}, requests.atLeast); diff != "" {
		t.Errorf("minimum resource versions of lists (-want +got):\n%s", diff)
	}
}
