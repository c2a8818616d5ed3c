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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	libraryjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// shootList returns a list of Shoots that differ in name and size.
func shootList(t testing.TB, length, padding int) *corev1beta1.ShootList {
	t.Helper()
	data, err := os.ReadFile("testdata/stored-shoot.json")
	if err != nil {
		t.Fatal(err)
	}
	list := &corev1beta1.ShootList{
		TypeMeta: metav1.TypeMeta{APIVersion: "core.gardener.cloud/v1beta1", Kind: "ShootList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next", RemainingItemCount: ptr.To(int64(3))},
	}
	for i := range length {
		shoot := corev1beta1.Shoot{}
		if err := json.Unmarshal(data, &shoot); err != nil {
			t.Fatal(err)
		}
		shoot.Name = fmt.Sprintf("shoot-%d", i)
		shoot.Annotations["padding"] = strings.Repeat("<p>", padding)
		list.Items = append(list.Items, shoot)
	}
	return list
}

func TestListsAreWrittenLikeTheLibrary(t *testing.T) {
	library := libraryjson.NewSerializerWithOptions(quickMeta{}, testScheme(), testScheme(),
		libraryjson.SerializerOptions{StreamingCollectionsEncoding: true})
	ours := newJSON(testScheme(), false)
	for name, list := range map[string]runtime.Object{
		"no items":          &corev1beta1.ShootList{},
		"empty":             &corev1beta1.ShootList{Items: []corev1beta1.Shoot{}},
		"one piece":         shootList(t, itemsPerPiece, 0),
		"a piece and one":   shootList(t, itemsPerPiece+1, 0),
		"many pieces":       shootList(t, 10*itemsPerPiece+3, 0),
		"items of 300 KB":   shootList(t, 2*itemsPerPiece, 100_000),
		"another kind":      &corev1beta1.SeedList{Items: make([]corev1beta1.Seed, 100)},
		"what is no object": &metav1.List{Items: make([]runtime.RawExtension, 100)},
	} {
		t.Run(name, func(t *testing.T) {
			var want, got bytes.Buffer
			if err := errors.Join(library.Encode(list, &want), ours.Encode(list, &got)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("written differently (-want +got):\n%.2000s", diff)
			}
		})
	}
}

func TestListWithAnItemThatCannotBeWritten(t *testing.T) {
	list := shootList(t, 5*itemsPerPiece, 0)
	list.Items[2*itemsPerPiece].Spec.Networking.ProviderConfig = &runtime.RawExtension{Raw: []byte("{")}
	if err := newJSON(testScheme(), false).Encode(list, io.Discard); err == nil {
		t.Error("no error")
	}
}

func TestListToAClientThatHasGone(t *testing.T) {
	gone := errors.New("gone")
	w := writer(func(data []byte) (int, error) {
		if bytes.Contains(data, []byte(`"shoot-40"`)) {
			return 0, gone
		}
		return len(data), nil
	})
	if err := newJSON(testScheme(), false).Encode(shootList(t, 10*itemsPerPiece, 0), w); !errors.Is(err, gone) {
		t.Errorf("got error %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(data []byte) (int, error) { return w(data) }

// BenchmarkList writes a list of 1,000 Shoots.
func BenchmarkList(b *testing.B) {
	list := shootList(b, 1000, 0)
	library := libraryjson.NewSerializerWithOptions(quickMeta{}, testScheme(), testScheme(),
		libraryjson.SerializerOptions{StreamingCollectionsEncoding: true})
	for name, encoder := range map[string]runtime.Encoder{"library": library, "ours": newJSON(testScheme(), false)} {
		b.Run(name, func(b *testing.B) { measure(b, 0, func() error { return encoder.Encode(list, io.Discard) }) })
	}
}
