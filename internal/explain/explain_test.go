package explain

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"hortus.dev/hortus/internal/golden"
)

// TestExplanations explains the Shoot demo of each folder of testdata, at noon, from the objects in the clusters: the
// files garden.yaml, seed.yaml and shoot.yaml. A file that is missing is a cluster that cannot be read.
func TestExplanations(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	folders, err := filepath.Glob("testdata/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d cases, %v", len(folders), err)
	}
	for _, folder := range folders {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			facts, err := readGarden(ctx, cluster(t, folder, "garden"), "garden-dev", "demo")
			if err != nil {
				t.Fatal(err)
			}
			if seed := cluster(t, folder, "seed"); seed != nil {
				if has, err := hasControlPlane(ctx, seed, facts.Shoot); !has || err != nil {
					t.Fatalf("the control plane is found: %t, %v", has, err)
				}
				if facts.ControlPlane, err = readControlPlane(ctx, seed, facts.Shoot.Status.TechnicalID); err != nil {
					t.Fatal(err)
				}
			}
			if shoot := cluster(t, folder, "shoot"); shoot != nil {
				if facts.Cluster, err = readCluster(ctx, shoot); err != nil {
					t.Fatal(err)
				}
			} else {
				facts.Unread = append(facts.Unread, "The Shoot itself: it does not answer")
			}
			var out bytes.Buffer
			if err := writeText(&out, []*Explanation{Of(facts, noon)}, noon); err != nil {
				t.Fatal(err)
			}
			golden.Bytes(t, name+"/explanation.txt", out.Bytes())
		})
	}
}

// TestControlPlaneOfAnotherGarden has a cluster with the control plane of a Shoot that has the same name.
func TestControlPlaneOfAnotherGarden(t *testing.T) {
	facts, err := readGarden(t.Context(), cluster(t, "testdata/quota", "garden"), "garden-dev", "demo")
	if err != nil {
		t.Fatal(err)
	}
	facts.Shoot.UID = "another"
	if has, err := hasControlPlane(t.Context(), cluster(t, "testdata/quota", "seed"), facts.Shoot); has || err != nil {
		t.Errorf("the control plane is found: %t, %v", has, err)
	}
}

// cluster serves the objects of a file; nil if there is no file.
func cluster(t *testing.T, folder, name string) client.Client {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	kindOfEvent := func(o client.Object) []string { return []string{o.(*corev1.Event).Type} }
	builder := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&corev1.Event{}, "type", kindOfEvent)
	for i, doc := range strings.Split(string(data), "\n---\n") {
		o, _, err := decoder.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%s.yaml, object %d: %v", name, i, err)
		}
		builder.WithObjects(o.(client.Object))
	}
	return builder.Build()
}

func TestSentence(t *testing.T) {
	for message, want := range map[string]string{
		"":                        "no message.",
		"a message":               "a message.",
		"Done!":                   "Done!",
		"two\nlines\tand  spaces": "two lines and spaces.",
		"\x1b[31mred\x1b[0m":      "[31mred[0m.",
	} {
		if got := sentence(message); got != want {
			t.Errorf("%q becomes %q, want %q", message, got, want)
		}
	}
}

func TestUnsupportedOutput(t *testing.T) {
	cmd := NewCommand()
	cmd.SetArgs([]string{"demo", "--output", "xml"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	want := `--output: unsupported value: "xml" (table, json, yaml)`
	if err := cmd.Execute(); err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
