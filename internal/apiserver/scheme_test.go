package apiserver

import (
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	corev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// fuzzRounds is the number of random objects of each kind. When the types were written, it was 1,000.
const fuzzRounds = 20

// fuzzFuncs fill in fields that cannot have random values.
func fuzzFuncs(serializer.CodecFactory) []any {
	return []any{
		func(raw *runtime.RawExtension, c randfill.Continue) {
			content, _ := json.Marshal(map[string]string{"key": c.String(10)})
			*raw = runtime.RawExtension{Raw: content}
		},
		// Empty lists and maps are not encoded, so they are decoded as nil.
		func(set *metav1.LabelSelector, c randfill.Continue) {
			*set = metav1.LabelSelector{MatchLabels: map[string]string{"a": c.String(5)}}
		},
	}
}

func newFuzzer(codecs serializer.CodecFactory) *randfill.Filler {
	return fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, fuzzFuncs), rand.NewSource(1), codecs)
}

func TestKindsRoundTrip(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToClientScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	filler := newFuzzer(codecs)
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Group == "" || isMetaKind(gvk) {
			continue
		}
		t.Run(gvk.String(), func(t *testing.T) {
			for range fuzzRounds {
				roundtrip.RoundTripSpecificKindWithoutProtobuf(t, gvk, scheme, codecs, filler, nil)
			}
		})
	}
}

func mustNew(t *testing.T, scheme *runtime.Scheme, gvk schema.GroupVersionKind) runtime.Object {
	t.Helper()
	object, err := scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// isMetaKind says whether a kind belongs to every group, such as ListOptions.
func isMetaKind(gvk schema.GroupVersionKind) bool {
	switch gvk.Kind {
	case "ListOptions", "GetOptions", "DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions", "ApplyOptions",
		"WatchEvent":
		return true
	}
	return false
}

// TestDefaultsAreIdempotent decodes each random object twice with the server's codec.
func TestDefaultsAreIdempotent(t *testing.T) {
	scheme := newServerScheme()
	codecs := serializer.NewCodecFactory(scheme)
	filler := newFuzzer(codecs)
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || gvk.Group == "" || isMetaKind(gvk) {
			continue
		}
		t.Run(gvk.String(), func(t *testing.T) {
			for range fuzzRounds {
				object := mustNew(t, scheme, gvk)
				filler.Fill(object)
				object.GetObjectKind().SetGroupVersionKind(gvk)
				scheme.Default(object)
				once := object.DeepCopyObject()
				scheme.Default(object)
				if diff := cmp.Diff(once, object); diff != "" {
					t.Fatalf("defaults differ when applied again (-once +twice):\n%s", diff)
				}
			}
		})
	}
}

func TestControllerDeploymentConverts(t *testing.T) {
	filler := newFuzzer(serializer.NewCodecFactory(newServerScheme()))
	for range 10 * fuzzRounds {
		v1 := &corev1.ControllerDeployment{}
		filler.Fill(v1)
		if v1.Helm == nil {
			v1.Helm = &corev1.HelmControllerDeployment{}
		}
		old, back := &corev1beta1.ControllerDeployment{}, &corev1.ControllerDeployment{}
		if err := v1.DeepCopy().ConvertTo(old); err != nil {
			t.Fatal(err)
		}
		if err := back.ConvertFrom(old.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		back.TypeMeta = v1.TypeMeta
		if !equality.Semantic.DeepEqual(v1, back) {
			t.Fatalf("v1 -> v1beta1 -> v1 (-want +got):\n%s", cmp.Diff(v1, back))
		}

		old = &corev1beta1.ControllerDeployment{}
		filler.Fill(old)
		if old.Type == corev1beta1.ControllerDeploymentTypeHelm {
			continue
		}
		again := &corev1beta1.ControllerDeployment{}
		v1 = &corev1.ControllerDeployment{}
		if err := v1.ConvertFrom(old.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if err := v1.ConvertTo(again); err != nil {
			t.Fatal(err)
		}
		again.TypeMeta = old.TypeMeta
		if !equality.Semantic.DeepEqual(old, again) {
			t.Fatalf("v1beta1 -> v1 -> v1beta1 (-want +got):\n%s", cmp.Diff(old, again))
		}
	}
}
