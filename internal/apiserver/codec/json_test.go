package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	libraryjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"sigs.k8s.io/randfill"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/api/corpus"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/api/validation"
)

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		corev1beta1.AddToScheme, gardencorev1.AddToScheme, operationsv1alpha1.AddToScheme, securityv1alpha1.AddToScheme,
		seedmanagementv1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// FuzzJSON compares our JSON with the library's: decoded objects, errors, and encoded documents.
func FuzzJSON(f *testing.F) {
	scheme := testScheme()
	seen := map[string]bool{} // One document per kind: each takes time at every start of the fuzzer.
	for _, document := range corpusDocuments(f) {
		if gvk, ok := kindOf(document); ok && !seen[gvk.Kind] {
			seen[gvk.Kind] = true
			f.Add(document)
		}
	}
	for _, document := range []string{
		`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","metadata":{"creationTimestamp":null,"labels":null},"spec":null}`,
		`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","spec":{"region":"a","region":"b"}}`,
		`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","spec":{"Region":"a","unknown":{}}}`,
		`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","spec":{"provider":{"workers":[{"maxSurge":"10%","minimum":1.0},null]}}}`,
		`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","spec":{"provider":{"infrastructureConfig":{"a":1e2,"a":"<&>"}}}}`,
		`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","metadata":{"name":"\ud800"}} `,
		`{"kind":"InternalSecret","apiVersion":"core.gardener.cloud/v1beta1","data":{"a":"YQ==\n","b":null,"c":""}}`,
		`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1"}{}`,
		`{"kind":"ShootList","apiVersion":"core.gardener.cloud/v1beta1","items":[{"metadata":{"name":"a"}},{}]}`,
		`{"kind":"Status","apiVersion":"v1","details":{"causes":[{"field":"a"}]}}`,
		`{"kind":"Status","apiVersion":"","metadata":{}}`,
		`{"kind":"InternalSecret","apiVersion":"core.gardener.cloud/v1beta1","data":{"a":"YQ==\n"},"type":5}`,
	} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		compareWithLibrary(t, scheme, document)
	})
}

func TestCorpusIsReadAndWrittenLikeTheLibrary(t *testing.T) {
	scheme := testScheme()
	for _, document := range corpusDocuments(t) {
		compareWithLibrary(t, scheme, document)
	}
}

// TestRandomObjectsAreReadAndWrittenLikeTheLibrary sets every field of every kind, and omits every field.
func TestRandomObjectsAreReadAndWrittenLikeTheLibrary(t *testing.T) {
	scheme := testScheme()
	filler := randfill.NewWithSeed(1).NilChance(0.2).NumElements(0, 3).MaxDepth(25).Funcs(
		func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte(`{"a":1e2,"b":["<&>",null]}`) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.Raw = []byte(`{"f:a":{}}`) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1<<40), resource.DecimalSI)
		},
		func(m *metav1.Time, c randfill.Continue) { *m = metav1.Unix(c.Int63n(1<<32), 0) },
		func(i *intstr.IntOrString, c randfill.Continue) {
			if *i = intstr.FromString(c.String(5)); c.Bool() {
				*i = intstr.FromInt32(c.Int31())
			}
		},
	)
	library := libraryjson.NewSerializerWithOptions(libraryjson.DefaultMetaFactory, scheme, scheme,
		libraryjson.SerializerOptions{})
	for _, kind := range validation.Kinds {
		for range 50 {
			object := kind.New()
			filler.Fill(object)
			object.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
			var document bytes.Buffer
			if err := library.Encode(object, &document); err != nil {
				t.Fatal(err)
			}
			compareWithLibrary(t, scheme, document.Bytes())
		}
	}
}

// compareWithLibrary decodes a document with our JSON and the library's, and encodes the result.
func compareWithLibrary(t *testing.T, scheme *runtime.Scheme, document []byte) {
	t.Helper()
	for _, strict := range []bool{false, true} {
		library := libraryjson.NewSerializerWithOptions(libraryjson.DefaultMetaFactory, scheme, scheme,
			libraryjson.SerializerOptions{Strict: strict, StreamingCollectionsEncoding: true})
		ours := newJSON(scheme, strict)
		want, wantKind, wantErr := library.Decode(document, nil, nil)
		got, gotKind, gotErr := ours.Decode(document, nil, nil)
		if diff := cmp.Diff([]string{text(wantErr)}, []string{withoutLocation(gotErr)}); diff != "" {
			t.Fatalf("strict %t, %s: other errors (-want +got):\n%s", strict, document, diff)
		}
		if diff := cmp.Diff(wantKind, gotKind); diff != "" {
			t.Fatalf("strict %t, %s: other kind (-want +got):\n%s", strict, document, diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("strict %t, %s: read differently (-want +got):\n%s", strict, document, diff)
		}
		if want == nil {
			continue
		}
		var wantText, gotText bytes.Buffer
		if diff := cmp.Diff(text(library.Encode(want, &wantText)), text(ours.Encode(got, &gotText))); diff != "" {
			t.Fatalf("strict %t, %s: other encoding errors (-want +got):\n%s", strict, document, diff)
		}
		if diff := cmp.Diff(wantText.String(), gotText.String()); diff != "" {
			t.Fatalf("strict %t, %s: written differently (-want +got):\n%s", strict, document, diff)
		}
	}
}

// withoutLocation is the library's message about a mistake.
func withoutLocation(err error) string {
	if located := errors.Unwrap(err); located != nil && err.Error() != located.Error() &&
		!runtime.IsStrictDecodingError(err) {
		return located.Error()
	}
	return text(err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// corpusDocuments are manifests of all kinds, sorted as clients write them, and with the kind in front as our encoder
// does.
func corpusDocuments(t testing.TB) [][]byte {
	t.Helper()
	cases, err := corpus.Load(os.DirFS("../../../api/testdata/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	var documents [][]byte
	for _, c := range cases {
		for _, object := range []map[string]any{c.Object, c.Old} {
			if object == nil {
				continue
			}
			document, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			kind := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, object["kind"], object["apiVersion"])
			delete(object, "kind")
			delete(object, "apiVersion")
			rest, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			documents = append(documents, document, []byte(kind+string(rest[1:])))
		}
	}
	if len(documents) < len(validation.Kinds) {
		t.Fatalf("the corpus has %d documents", len(documents))
	}
	return documents
}

func TestListsAreWrittenLikeTheLibraryInPieces(t *testing.T) {
	list := &corev1beta1.ShootList{
		TypeMeta: metav1.TypeMeta{APIVersion: "core.gardener.cloud/v1beta1", Kind: "ShootList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next", RemainingItemCount: new(int64(3))},
		Items:    make([]corev1beta1.Shoot, 1000),
	}
	library := libraryjson.NewSerializerWithOptions(libraryjson.DefaultMetaFactory, testScheme(), testScheme(),
		libraryjson.SerializerOptions{StreamingCollectionsEncoding: true})
	var want, got bytes.Buffer
	largest := 0
	pieces := writer(func(data []byte) (int, error) {
		largest = max(largest, len(data))
		return got.Write(data)
	})
	if err := errors.Join(library.Encode(list, &want), newJSON(testScheme(), false).Encode(list, pieces)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("written differently (-want +got):\n%.2000s", diff)
	}
	if largest > got.Len()/4 {
		t.Errorf("%d of %d bytes were in memory at once", largest, got.Len())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(data []byte) (int, error) { return w(data) }

// TestDocumentsAreReadQuickly fails if the fast decoder falls back to the library for documents of users, which would
// be unnoticed otherwise.
func TestDocumentsAreReadQuickly(t *testing.T) {
	scheme := testScheme()
	library := libraryjson.NewSerializerWithOptions(libraryjson.DefaultMetaFactory, scheme, scheme,
		libraryjson.SerializerOptions{Strict: true})
	for _, document := range corpusDocuments(t) {
		if _, ok := kindOf(document); !ok {
			continue
		}
		if _, _, err := library.Decode(document, nil, nil); err != nil {
			continue // The library's error is needed.
		}
		if object, _ := newJSON(scheme, true).(*quick).read(document, nil); object == nil {
			t.Errorf("left to the library: %s", document)
		}
	}
}

func TestMistakesAreLocated(t *testing.T) {
	const prefix = `{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1",`
	for document, want := range map[string]string{
		`"spec":{"region":5}}`: `spec.region: json: cannot unmarshal number into Go struct field ShootSpec.spec.region of type string`,
		`"spec":{"provider":{"workers":[{},{"minimum":"1","machine":{}}]}}}`: `spec.provider.workers[1].minimum: ` +
			`json: cannot unmarshal string into Go struct field Worker.spec.provider.workers.minimum of type int32`,
		`"spec":{"kubernetes":{"kubeAPIServer":{"eventTTL":"1x"}}}}`: `spec.kubernetes.kubeAPIServer.eventTTL: time: unknown unit "x" in duration "1x"`,
		`"spec":{"provider":{"workers":[{"kubernetes":{"kubelet":{"kubeReserved":{"cpu":"a b"}}}}]}}}`: `spec.provider.workers[0].kubernetes.kubelet.kubeReserved.cpu: ` +
			`quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		`"metadata":{"annotations":{"example.org/a":true}}}`: `metadata.annotations[example.org/a]: json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.annotations of type string`,
		`"spec":{"region":["a"]}}`:                           `spec.region: json: cannot unmarshal array into Go struct field ShootSpec.spec.region of type string`,
		`"spec":{"region":{"a":1},"unknown":1}}`:             `spec.region: json: cannot unmarshal object into Go struct field ShootSpec.spec.region of type string`,
		`"data":{"a":"YQ==\n"},"type":5}`:                    `type: json: cannot unmarshal number into Go struct field InternalSecret.type of type v1.SecretType`,
		`"spec":{"region":5,"region":"a"}}`:                  `spec.region: json: cannot unmarshal number into Go struct field ShootSpec.spec.region of type string`,
		`"spec":{"region":"a"`:                               "couldn't get version/kind; json parse error: unexpected end of JSON input",
	} {
		if strings.HasPrefix(document, `"data"`) {
			document = strings.Replace(prefix, "Shoot", "InternalSecret", 1) + document
		} else {
			document = prefix + document
		}
		if _, _, err := newJSON(testScheme(), true).Decode([]byte(document), nil, nil); text(err) != want {
			t.Errorf("%s\ngot  %v\nwant %s", document, err, want)
		}
	}
}

func TestDecodeIntoGivenObject(t *testing.T) {
	serializer := newJSON(testScheme(), true)
	document := []byte(`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","metadata":{"name":"a"}}`)
	into := &corev1beta1.Shoot{}
	if got, _, err := serializer.Decode(document, nil, into); err != nil || got != runtime.Object(into) ||
		into.Name != "a" {
		t.Errorf("read %v into %+v: %v", got, into.ObjectMeta, err)
	}
	other := &corev1beta1.Seed{} // As the library does: a caller that expects a Seed has to check the kind.
	if got, gvk, err := serializer.Decode(document, nil, other); err != nil || gvk.Kind != "Shoot" ||
		got == runtime.Object(other) {
		t.Errorf("read %T (%v) into a Seed: %v", got, gvk, err)
	}
}

func TestEncodeUsesCacheOfObject(t *testing.T) {
	object := &cacheable{Shoot: &corev1beta1.Shoot{}}
	if err := newJSON(testScheme(), false).Encode(object, &bytes.Buffer{}); !errors.Is(err, errAsked) {
		t.Errorf("the cache was not used: %v", err)
	}
}

var errAsked = errors.New("asked")

type cacheable struct{ *corev1beta1.Shoot }

func (c *cacheable) CacheEncode(runtime.Identifier, func(runtime.Object, io.Writer) error, io.Writer) error {
	return errAsked
}
func (c *cacheable) GetObject() runtime.Object { return c.Shoot }
