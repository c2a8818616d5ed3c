package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// layout writes an image layout whose images have a name and only a manifest.
func layout(t *testing.T, dir string, names ...string) {
	t.Helper()
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		t.Fatal(err)
	}
	var index ocispec.Index
	for _, name := range names {
		manifest := []byte(`{"mediaType":"` + ocispec.MediaTypeImageManifest + `","annotations":{"name":"` + name + `"}}`)
		d := digest.FromBytes(manifest)
		if err := os.WriteFile(filepath.Join(blobs, d.Encoded()), manifest, 0o644); err != nil {
			t.Fatal(err)
		}
		index.Manifests = append(index.Manifests, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: int64(len(manifest)),
			Annotations: map[string]string{ocispec.AnnotationRefName: name},
		})
	}
	data, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPull(t *testing.T) {
	dir := t.TempDir()
	r := New(dir)
	if w := get(r, "/v2/pause/manifests/3.10.1"); w.Code != http.StatusNotFound {
		t.Errorf("before there is a layout: status %d, want 404", w.Code)
	}
	layout(t, dir, "registry.k8s.io/pause:3.10.1", "hortus.dev/hortus:dev", "a.test/same:1", "b.test/same:1")
	for path, want := range map[string]int{
		"/v2/": http.StatusOK,
		"/v2/pause/manifests/3.10.1?ns=registry.k8s.io":           http.StatusOK, // The request of containerd.
		"/v2/registry.k8s.io/pause/manifests/3.10.1":              http.StatusOK,
		"/v2/pause/manifests/3.10.1":                              http.StatusOK,
		"/v2/pause/manifests/3.10.1?ns=docker.io":                 http.StatusNotFound,
		"/v2/pause/manifests/9":                                   http.StatusNotFound,
		"/v2/same/manifests/1":                                    http.StatusNotFound, // Two images fit.
		"/v2/same/manifests/1?ns=b.test":                          http.StatusOK,
		"/v2/pause/blobs/..%2F..%2Findex.json":                    http.StatusNotFound,
		"/v2/pause/blobs/sha256:../../../etc/passwd":              http.StatusNotFound,
		"/v2/pause/blobs/sha256:00000000000000000000000000000000": http.StatusNotFound,
		"/v2/nonsense": http.StatusNotFound,
	} {
		if w := get(r, path); w.Code != want {
			t.Errorf("GET %s = %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
	w := get(r, "/v2/pause/manifests/3.10.1")
	d := digest.FromBytes(w.Body.Bytes()).String()
	if got := w.Header().Get("Docker-Content-Digest"); got != d {
		t.Errorf("digest header = %q, want that of the content %q", got, d)
	}
	if got := w.Header().Get("Content-Type"); got != ocispec.MediaTypeImageManifest {
		t.Errorf("content type = %q", got)
	}
	if again := get(r, "/v2/pause/manifests/"+d); again.Body.String() != w.Body.String() {
		t.Error("the manifest by digest differs from that by tag")
	}
	if blob := get(r, "/v2/any/blobs/"+d); blob.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("content type of a blob = %q", blob.Header().Get("Content-Type"))
	}
}

func TestIndexIsReadAgainWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	r := New(dir)
	layout(t, dir, "a.test/one:1")
	if w := get(r, "/v2/one/manifests/1"); w.Code != http.StatusOK {
		t.Fatalf("status %d", w.Code)
	}
	layout(t, dir, "a.test/two:1")
	later := time.Now().Add(time.Minute) // The test must not depend on the resolution of file times.
	if err := os.Chtimes(filepath.Join(dir, "index.json"), later, later); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"one": http.StatusNotFound, "two": http.StatusOK} {
		if w := get(r, "/v2/"+name+"/manifests/1"); w.Code != want {
			t.Errorf("image %s: status %d, want %d", name, w.Code, want)
		}
	}
}

func TestWritingIsRefused(t *testing.T) {
	w := httptest.NewRecorder()
	New(t.TempDir()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v2/x/blobs/uploads/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status = %d, want 405", w.Code)
	}
}

func TestImagesThatAreBeingMade(t *testing.T) {
	r := New(t.TempDir())
	r.Make = func(_ context.Context, name string) error {
		if name != "a.test/one:1" {
			return ErrUnknown
		}
		return errors.New("it is being made:\nsoon")
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/v2/one/manifests/1?ns=a.test", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if want := "503 it is being made: soon"; err != nil || response.Status != want ||
			(method == http.MethodGet) != strings.Contains(string(body), `"UNAVAILABLE"`) {
			t.Errorf("%s = %q, %q, %v, want %q", method, response.Status, body, err, want)
		}
	}

	if w := get(r, "/v2/one/manifests/1?ns=a.test"); w.Code != http.StatusServiceUnavailable { // As over HTTP/2.
		t.Errorf("status %d, want 503", w.Code)
	}
	if w := get(r, "/v2/two/manifests/1?ns=a.test"); w.Code != http.StatusNotFound {
		t.Errorf("status %d of an unknown image, want 404", w.Code)
	}
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	layout(t, dir, "a.test/there:1")
	r := New(dir)
	if notYet, err := r.Prepare("a.test/there:1"); notYet != nil || err != nil {
		t.Errorf("Prepare of an image that is there = %v, %v", notYet, err)
	}
	if _, err := r.Prepare("a.test/new:1"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Prepare of a registry that makes nothing = %v, want %v", err, ErrUnknown)
	}
	building := errors.New("new 1 is being built")
	r.Make = func(ctx context.Context, name string) error {
		if name != "a.test/new:1" {
			return ErrUnknown
		}
		<-ctx.Done() // Prepare does not wait.
		return building
	}
	if notYet, err := r.Prepare("a.test/new:1"); !errors.Is(notYet, building) || err != nil {
		t.Errorf("Prepare = %v, %v, want %v", notYet, err, building)
	}
	if _, err := r.Prepare("a.test/other:1"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Prepare of an image that cannot be made = %v, want %v", err, ErrUnknown)
	}
}
