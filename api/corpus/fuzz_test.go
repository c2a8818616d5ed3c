package corpus

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/api/validation"
)

// FuzzKinds decodes any JSON as every kind and checks invariants: validation and defaulting terminate, a second
// defaulting changes nothing, and nothing is lost between the wire format and the type.
func FuzzKinds(f *testing.F) {
	cases, err := Load(os.DirFS(dir))
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		raw, err := json.Marshal(c.Object)
		if err != nil {
			f.Fatal(err)
		}
		old, err := json.Marshal(c.Old)
		if err != nil {
			f.Fatal(err)
		}
		for i, kind := range validation.Kinds {
			if kind.Kind == c.Object["kind"] {
				f.Add(uint8(i), raw, old)
			}
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, raw, old []byte) {
		kind := validation.Kinds[int(i)%len(validation.Kinds)]
		object, before := kind.New(), kind.New()
		if kjson.UnmarshalCaseSensitivePreserveInts(raw, object) != nil ||
			kjson.UnmarshalCaseSensitivePreserveInts(old, before) != nil {
			return
		}
		checkInvariants(t, kind, object, before)
	})
}

// checkInvariants checks two decoded objects.
func checkInvariants(t *testing.T, kind validation.Kind, object, before validation.Object) {
	t.Helper()
	checkRoundTrip(t, kind, object)
	for _, o := range []validation.Object{object, before} {
		kind.SetDefaults(o)
		again := o.DeepCopyObject().(validation.Object)
		kind.SetDefaults(again)
		if !equality.Semantic.DeepEqual(o, again) {
			t.Errorf("defaulting %s twice changes it again (-once +twice):\n%s", kind.Kind,
				cmp.Diff(toJSON(t, o), toJSON(t, again)))
		}
	}
	checkRoundTrip(t, kind, object)
	unchanged := object.DeepCopyObject()
	for _, options := range []validation.Options{
		{Features: corev1beta1.DefaultFeatures(), Now: time.Unix(1<<31, 0)},
		{BeforeAdmission: true},
	} {
		kind.Create(object, options)
		kind.Update(object, before, options)
		kind.Warnings(object, nil, options)
		kind.Warnings(object, before, options)
	}
	kind.StatusUpdate(object, before)
	if !equality.Semantic.DeepEqual(unchanged, object) {
		t.Errorf("validating %s changes it:\n%s", kind.Kind, cmp.Diff(toJSON(t, unchanged), toJSON(t, object)))
	}
}

func checkRoundTrip(t *testing.T, kind validation.Kind, object validation.Object) {
	t.Helper()
	written := toJSON(t, object)
	read := kind.New()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(written, read); err != nil {
		t.Fatalf("read %s that was written: %v\n%s", kind.Kind, err, written)
	}
	if diff := cmp.Diff(string(written), string(toJSON(t, read))); diff != "" {
		t.Errorf("%s changes between type and wire (-written +read):\n%s", kind.Kind, diff)
	}
}

func toJSON(t *testing.T, object any) []byte {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatalf("write %T: %v", object, err)
	}
	return raw
}

// randomObjects per kind; more would take long and find little.
const randomObjects = 25

func TestRandomObjects(t *testing.T) {
	for _, kind := range validation.Kinds {
		t.Run(kind.GroupVersion().String()+" "+kind.Kind, func(t *testing.T) {
			fill := filler(int64(len(kind.Kind)))
			for range randomObjects {
				object, before := kind.New(), kind.New()
				fill.Fill(object)
				fill.Fill(before)
				checkInvariants(t, kind, object, before)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// filler fills objects with random values that JSON can hold.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(meta *metav1.TypeMeta, _ randfill.Continue) {},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.Raw = []byte("{}") },
		func(at *metav1.Time, c randfill.Continue) { at.Time = time.Unix(c.Int63n(1<<32), 0).Local() },
		func(at *metav1.MicroTime, c randfill.Continue) { at.Time = time.Unix(c.Int63n(1<<32), 0).Local() },
		func(raw *runtime.RawExtension, c randfill.Continue) {
			raw.Raw = []byte([]string{
				`{"a":"b"}`, `{"kind":"GardenletConfiguration","seedConfig":{"spec":{}}}`, `{"chart":"YQ=="}`,
			}[c.Intn(3)])
		},
	)
}
