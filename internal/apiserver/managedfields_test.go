package apiserver

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/api/validation"
)

// converters returns the library's converter and ours.
func converters(t testing.TB) (o *Options, library, ours managedfields.TypeConverter) {
	t.Helper()
	o = NewOptions()
	config := genericapiserver.NewRecommendedConfig(o.codecs)
	addOpenAPI(config)
	library, err := newTypeConverter(config.OpenAPIV3Config)
	if err != nil {
		t.Fatal(err)
	}
	return o, library, mapConverter{library}
}

func fieldManager(
	t testing.TB, o *Options, converter managedfields.TypeConverter, kind schema.GroupVersionKind,
) *managedfields.FieldManager {
	t.Helper()
	hub := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	manager, err := managedfields.NewDefaultFieldManager(converter, runtime.UnsafeObjectConvertor(o.scheme), o.scheme,
		o.scheme, kind, hub, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return manager
}

// TestManagedFieldsAreTheLibrarys has two managers change objects of every kind at random, and then one apply fields.
func TestManagedFieldsAreTheLibrarys(t *testing.T) {
	o, library, quick := converters(t)
	filler := randfill.NewWithSeed(1).NilChance(0.4).NumElements(0, 3).MaxDepth(25).Funcs(
		func(r *runtime.RawExtension, c randfill.Continue) {
			raws := []string{
				`{"a":1,"b":["<&>",null,1.5]}`, `{"a":2,"c":{"d":true}}`, `{}`, `null`, `"a"`, `[1,{}]`, `1e30`, `9007199254740993`,
				`{"a":12345678901234567890}`,
			}
			r.Raw = []byte(raws[c.Intn(len(raws))])
		},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			m.Name, m.Labels = "name", map[string]string{c.String(3): "a", "b": c.String(2)}
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1<<40), resource.DecimalSI)
		},
		func(m *metav1.Time, c randfill.Continue) { *m = metav1.Unix(c.Int63n(1<<32), 0) },
		func(i *intstr.IntOrString, c randfill.Continue) {
			if *i = intstr.FromString("10%"); c.Bool() {
				*i = intstr.FromInt32(c.Int31())
			}
		},
	)
	ignoreTimes := cmp.Options{ // Entries are sorted by time.
		cmpopts.IgnoreFields(metav1.ManagedFieldsEntry{}, "Time"),
		cmpopts.IgnoreFields(corev1beta1.MaintenanceTimeWindow{}, "Begin", "End"), // The default is random.
		cmpopts.SortSlices(func(a, b metav1.ManagedFieldsEntry) bool {
			return a.Manager+string(a.Operation) < b.Manager+string(b.Operation)
		}),
	}
	for _, kind := range validation.Kinds {
		theirs, ours := fieldManager(t, o, library, kind.GroupVersionKind), fieldManager(t, o, quick, kind.GroupVersionKind)
		for range 20 {
			live := [2]runtime.Object{kind.New(), kind.New()}
			for _, writer := range []string{"first", "second", "first", "third"} {
				changed := kind.New()
				filler.Fill(changed)
				changed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
				for i, manager := range []*managedfields.FieldManager{theirs, ours} {
					object, err := manager.Update(live[i], changed.DeepCopyObject(), writer)
					if err != nil {
						t.Fatalf("%s: %v", kind.Kind, err)
					}
					live[i] = object
				}
				if diff := cmp.Diff(live[0], live[1], ignoreTimes); diff != "" {
					t.Fatalf("%s: other managed fields (-library +ours):\n%s", kind.Kind, diff)
				}
			}
			applied := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
				"name": "name", "labels": map[string]any{"b": "applied"},
			}}}
			applied.SetGroupVersionKind(kind.GroupVersionKind)
			for i, manager := range []*managedfields.FieldManager{theirs, ours} {
				object, err := manager.Apply(live[i], applied.DeepCopy(), "applier", true)
				if err != nil {
					t.Fatalf("%s: %v", kind.Kind, err)
				}
				live[i] = object
			}
			if diff := cmp.Diff(live[0], live[1], ignoreTimes); diff != "" {
				t.Fatalf("%s: applied differently (-library +ours):\n%s", kind.Kind, diff)
			}
		}
	}
}

// The fields of an object can be managed in every version that it is served in, and those of subresources, too.
func TestManagedFieldsOfAllVersions(t *testing.T) {
	_, _, converter := converters(t)
	scheme := runtime.NewScheme()
	if err := AddToClientScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for gvk := range scheme.AllKnownTypes() {
		object, err := scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := object.(metav1.Object); !ok {
			continue
		}
		object.GetObjectKind().SetGroupVersionKind(gvk)
		if _, err := converter.ObjectToTyped(object); err != nil {
			t.Errorf("%s: %v", gvk, err)
		}
	}
}

// BenchmarkManagedFields computes the managed fields after a change of one field in a stored Shoot.
func BenchmarkManagedFields(b *testing.B) {
	o, library, quick := converters(b)
	data, err := os.ReadFile("codec/testdata/stored-shoot.json")
	if err != nil {
		b.Fatal(err)
	}
	live := &corev1beta1.Shoot{}
	if err := json.Unmarshal(data, live); err != nil {
		b.Fatal(err)
	}
	live.TypeMeta = metav1.TypeMeta{}
	for name, converter := range map[string]managedfields.TypeConverter{"library": library, "ours": quick} {
		manager := fieldManager(b, o, converter, corev1beta1.SchemeGroupVersion.WithKind("Shoot"))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				changed := live.DeepCopy()
				changed.Spec.Kubernetes.KubeAPIServer.Requests.MaxMutatingInflight = ptr.To(int32(7))
				if _, err := manager.Update(live.DeepCopy(), changed, "hortus-bench"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
