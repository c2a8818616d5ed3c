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

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// TestExplanations explains the Shoot demo of each folder of testdata/shoots, at noon, from the objects in the
// clusters: the files garden.yaml, seed.yaml and shoot.yaml. A file that is missing is a cluster that cannot be read.
func TestExplanations(t *testing.T) {
	for _, folder := range folders(t, "testdata/shoots/*") {
		name := "shoots/" + filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			facts, err := readShootInGarden(ctx, cluster(t, folder, "garden"), "garden-dev", "demo")
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
			check(t, name, OfShoot(facts, noon))
		})
	}
}

// TestExplanationsOfSeeds explains the Seed local-1 of each folder of testdata/seeds in the same way.
func TestExplanationsOfSeeds(t *testing.T) {
	for _, folder := range folders(t, "testdata/seeds/*") {
		name := "seeds/" + filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			facts, err := readSeedInGarden(ctx, cluster(t, folder, "garden"), "local-1")
			if err != nil {
				t.Fatal(err)
			}
			if seed := cluster(t, folder, "seed"); seed != nil {
				if is, err := isSeed(ctx, seed, facts.Seed); !is || err != nil {
					t.Fatalf("the cluster is the Seed's: %t, %v", is, err)
				}
				if facts.Cluster, err = readSeedCluster(ctx, seed, facts.Installations); err != nil {
					t.Fatal(err)
				}
			}
			check(t, name, OfSeed(facts, noon))
		})
	}
}

func folders(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%d cases, %v", len(found), err)
	}
	return found
}

func check(t *testing.T, name string, e *Explanation) {
	t.Helper()
	var out bytes.Buffer
	if err := writeText(&out, []*Explanation{e}, noon); err != nil {
		t.Fatal(err)
	}
	golden.Bytes(t, name+"/explanation.txt", out.Bytes())
}

// TestClusterOfAnotherSeed has a Seed that has not reported its cluster yet, and one with another cluster.
func TestClusterOfAnotherSeed(t *testing.T) {
	seed, other := &corev1beta1.Seed{}, "another"
	if is, err := isSeed(t.Context(), cluster(t, "testdata/seeds/broken", "seed"), seed); is || err != nil {
		t.Errorf("without an identity, the cluster is the Seed's: %t, %v", is, err)
	}
	seed.Status.ClusterIdentity = &other
	if is, err := isSeed(t.Context(), cluster(t, "testdata/seeds/broken", "seed"), seed); is || err != nil {
		t.Errorf("the cluster is the Seed's: %t, %v", is, err)
	}
}

// TestControlPlaneOfAnotherGarden has a cluster with the control plane of a Shoot that has the same name.
func TestControlPlaneOfAnotherGarden(t *testing.T) {
	facts, err := readShootInGarden(t.Context(), cluster(t, "testdata/shoots/quota", "garden"), "garden-dev", "demo")
	if err != nil {
		t.Fatal(err)
	}
	facts.Shoot.UID = "another"
	seed := cluster(t, "testdata/shoots/quota", "seed")
	if has, err := hasControlPlane(t.Context(), seed, facts.Shoot); has || err != nil {
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
	seedOfInstallation := func(o client.Object) []string {
		return []string{o.(*corev1beta1.ControllerInstallation).Spec.SeedRef.Name}
	}
	seedOfBucket := func(o client.Object) []string { return []string{*o.(*corev1beta1.BackupBucket).Spec.SeedName} }
	builder := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&corev1.Event{}, "type", kindOfEvent).
		WithIndex(&corev1beta1.ControllerInstallation{}, "spec.seedRef.name", seedOfInstallation).
		WithIndex(&corev1beta1.BackupBucket{}, "spec.seedName", seedOfBucket)
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

func TestUnsupportedArguments(t *testing.T) {
	cmd := NewCommand()
	cmd.SetArgs([]string{"demo", "pod/a", "seed/"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	want := `unsupported value: "pod/a" (NAME or shoot/NAME of a Shoot, seed/NAME of a Seed)
invalid value: "seed/" (it needs one name)`
	if err := cmd.Execute(); err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
