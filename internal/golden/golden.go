// Package golden compares what tests get with files that are read in review. It is for tests.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Objects compares the objects, as a stream of YAML documents, with testdata/<name>.yaml.
func Objects(t *testing.T, name string, objects ...client.Object) {
	t.Helper()
	var out bytes.Buffer
	for _, o := range objects {
		if o.GetObjectKind().GroupVersionKind().Empty() {
			gvk, err := apiutil.GVKForObject(o, scheme.Scheme)
			if err != nil {
				t.Fatal(err)
			}
			o.GetObjectKind().SetGroupVersionKind(gvk)
		}
		doc, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	Bytes(t, name+".yaml", out.Bytes())
}

// Messages compares refusals, by the names of their cases, with testdata/<name of the test>.golden. Cases that are
// allowed have none.
func Messages(t *testing.T, messages map[string]error) {
	t.Helper()
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(messages)) {
		if err := messages[name]; err != nil {
			fmt.Fprintf(&text, "# %s\n%v\n", name, err)
		}
	}
	Bytes(t, t.Name()+".golden", text.Bytes())
}

// Bytes compares text with testdata/<name>; -update rewrites the file.
func Bytes(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read golden file (run the test with -update to make it): %v", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s mismatch (-want +got); -update accepts the change:\n%s", path, diff)
	}
}
