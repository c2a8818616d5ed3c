package landscape

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hortus.dev/hortus/local/images"
)

// writeLayout writes an index of images like that of a build, each with a different digest.
func writeLayout(t *testing.T, artifacts string, names ...string) {
	t.Helper()
	index := v1.IndexManifest{SchemaVersion: 2}
	for i, name := range names {
		index.Manifests = append(index.Manifests, v1.Descriptor{
			Digest:      v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%064x", i)},
			Annotations: map[string]string{images.AnnotationName: name},
		})
	}
	data, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(images.LayoutDir(artifacts), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(images.LayoutDir(artifacts), "index.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestClustersRunWhatWasBuiltLast(t *testing.T) {
	artifacts := t.TempDir()
	names := images.Defaults()
	writeLayout(t, artifacts, names...)
	found, err := clusterImages(artifacts)
	if err != nil {
		t.Fatal(err)
	}
	fields := reflect.ValueOf(found)
	for i := range fields.NumField() {
		name, digest, pinned := strings.Cut(fields.Field(i).String(), "@")
		if want, err := images.Digest(artifacts, name); err != nil || !pinned || digest != want {
			t.Errorf("image %s is %q, want its digest %q, %v", fields.Type().Field(i).Name, fields.Field(i), want, err)
		}
	}
	writeLayout(t, artifacts, names[1:]...) // Digests depend on the position here, so all change.
	if rebuilt, err := clusterImages(artifacts); err != nil || rebuilt == found {
		t.Errorf("after other builds the images are %v, %v", rebuilt, err)
	}
	writeLayout(t, artifacts)
	if _, err := clusterImages(artifacts); err == nil || !strings.Contains(err.Error(), "not built") {
		t.Errorf("without images the error is %v", err)
	}
}
