package images

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func openStore(t *testing.T) (*Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "images")
	store, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store, dir
}

func textImage(t *testing.T, store *Store, text string) v1.Image {
	t.Helper()
	img, err := assemble(store, recipe{
		layers: [][]Entry{
			{{Path: "shared", Content: []byte("same in all")}},
			{{Path: "text", Content: []byte(text)}},
		},
		entrypoint: []string{"/text"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func put(t *testing.T, store *Store, name, text string) (changed bool) {
	t.Helper()
	changed, err := store.Put(name, textImage(t, store, text))
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func blobs(t *testing.T, dir string) int {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "blobs", "sha256"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestStoreRoundTrip(t *testing.T) {
	store, dir := openStore(t)
	if !put(t, store, "hortus.dev/b:1", "two") || !put(t, store, "hortus.dev/a:1", "one") {
		t.Error("Put() of a new image reports no change")
	}
	if put(t, store, "hortus.dev/a:1", "one") {
		t.Error("Put() of the same image reports a change")
	}

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index, validate.Fast); err != nil { // Above Fast it requires gzip.
		t.Errorf("layout is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range manifest.Manifests {
		names = append(names, d.Annotations[AnnotationName])
		if d.Platform.OS != "linux" || d.Platform.Architecture != runtime.GOARCH {
			t.Errorf("%s is for %s", d.Annotations[AnnotationName], d.Platform)
		}
	}
	if diff := cmp.Diff([]string{"hortus.dev/a:1", "hortus.dev/b:1"}, names); diff != "" {
		t.Errorf("names mismatch (-want +got):\n%s", diff)
	}

	digest, err := Digest(filepath.Dir(dir), "hortus.dev/a:1")
	if err != nil || digest != manifest.Manifests[0].Digest.String() {
		t.Errorf("Digest() = %s, %v, want %s", digest, err, manifest.Manifests[0].Digest)
	}
	if _, err := Digest(filepath.Dir(dir), "hortus.dev/a:2"); err == nil {
		t.Error("Digest() finds an image that was not stored")
	}

	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{Env: []string{"PATH=" + searchPath}, Entrypoint: []string{"/text"}, WorkingDir: "/"}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("config mismatch (-want +got):\n%s", diff)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 2 {
		t.Fatalf("image has layers %v, %v", layers, err)
	}
	content, err := layers[1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	raw, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0 0644 3 text "}, listTar(t, raw)); diff != "" {
		t.Errorf("layer mismatch (-want +got):\n%s", diff)
	}
	if got := blobs(t, dir); got != 2*3+1 { // Manifest, config and own layer of each, and the layer they share.
		t.Errorf("layout has %d blobs, want 7", got)
	}
}

func TestReplacedImageIsPrunedWhenOld(t *testing.T) {
	store, dir := openStore(t)
	put(t, store, "hortus.dev/a:1", "one")
	before := blobs(t, dir)
	put(t, store, "hortus.dev/a:1", "changed")

	if err := store.Prune(time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := blobs(t, dir); got != before+3 {
		t.Errorf("%d blobs after pruning at once, want %d: they may still be read", got, before+3)
	}
	if err := store.Prune(time.Minute, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := blobs(t, dir); got != before {
		t.Errorf("%d blobs after pruning later, want %d", got, before)
	}
	stored, err := store.List()
	if err != nil || len(stored) != 1 || stored[0].Layers != 2 {
		t.Errorf("List() = %+v, %v", stored, err)
	}
	// A pruned layer must not count as present.
	if !put(t, store, "hortus.dev/a:1", "one") || blobs(t, dir) != before+3 {
		t.Error("the first content could not be stored again")
	}
}

func TestLayerIsMadeAgainWhenItsSourceChanges(t *testing.T) {
	store, dir := openStore(t)
	source := filepath.Join(t.TempDir(), "program")
	digest := func(content string) v1.Hash {
		t.Helper()
		if content != "" {
			if err := os.WriteFile(source+".new", []byte(content), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(source+".new", source); err != nil {
				t.Fatal(err)
			}
		}
		reopened, err := OpenStore(dir) // The cache has to survive the process.
		if err != nil {
			t.Fatal(err)
		}
		layer, err := reopened.Layer([]Entry{{Path: "program", Source: source}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := digest("1234")
	if again := digest(""); again != first {
		t.Errorf("layer of an unchanged file is %s, before %s", again, first)
	}
	if second := digest("4321"); second == first {
		t.Error("the layer did not change with the content of the same size")
	}
	if len(store.layers) != 0 {
		t.Error("the empty store has cached layers")
	}
}

func TestListing(t *testing.T) {
	got := listing([]string{"a:1", "b:1"}, []Stored{{Name: "b:1", Bytes: 5}, {Name: "own:1", Bytes: 7}})
	want := []listed{
		{Stored: Stored{Name: "a:1"}},
		{Stored: Stored{Name: "b:1", Bytes: 5}, Built: true},
		{Stored: Stored{Name: "own:1", Bytes: 7}, Built: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listing() mismatch (-want +got):\n%s", diff)
	}
}
