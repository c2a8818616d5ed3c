package corpus

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/api/validation"
)

var update = flag.Bool("update", false, "rewrite the golden file of messages")

const dir = "../testdata/corpus"

func TestCorpus(t *testing.T) {
	cases, err := Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	var messages strings.Builder
	for _, c := range cases {
		t.Run(strings.TrimSuffix(c.File, ".yaml"), func(t *testing.T) {
			kind, object, old := decode(t, c)
			options := validation.Options{Features: features(t, c.Features), Now: c.Now}
			var errs field.ErrorList
			var warnings []string
			switch c.Operation {
			case Create:
				errs, warnings = kind.Create(object, options), kind.Warnings(object, nil, options)
			case Update:
				errs, warnings = kind.Update(object, old, options), kind.Warnings(object, old, options)
			case StatusUpdate:
				errs = kind.StatusUpdate(object, old)
			default:
				t.Fatalf("unknown operation %q", c.Operation)
			}
			var got []string
			for _, e := range errs {
				got = append(got, NewError(e).String())
			}
			var want []string
			for _, e := range c.Errors {
				want = append(want, e.String())
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\nerrors mismatch (-want +got):\n%s\n%v", c.Name, diff, errs)
			}
			checkDefaults(t, c, object)
			checkWarnings(t, c, warnings)
			if len(errs) > 0 {
				fmt.Fprintf(&messages, "# %s: %s\n", strings.TrimSuffix(c.File, ".yaml"), c.Name)
				for _, e := range errs {
					fmt.Fprintf(&messages, "%s\n", e)
				}
				messages.WriteString("\n")
			}
		})
	}
	compareGolden(t, filepath.Join(dir, "messages.golden"), messages.String())
}

// decode decodes the objects of a case as strictly as a server can, and sets their defaults.
func decode(t *testing.T, c Case) (kind validation.Kind, object, old validation.Object) {
	t.Helper()
	apiVersion, _ := c.Object["apiVersion"].(string)
	name, _ := c.Object["kind"].(string)
	kind, ok := validation.Find(schema.FromAPIVersionAndKind(apiVersion, name))
	if !ok {
		t.Fatalf("no kind %s %s", apiVersion, name)
	}
	read := func(manifest map[string]any) validation.Object {
		raw, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		object := kind.New()
		strict, err := kjson.UnmarshalStrict(raw, object)
		if err != nil || len(strict) > 0 {
			t.Fatalf("decode: %v %v", err, strict)
		}
		kind.SetDefaults(object)
		return object
	}
	object = read(c.Object)
	if c.Old != nil {
		old = read(c.Old)
		old.SetResourceVersion("1")
		object.SetResourceVersion("1")
		if shoot, ok := object.(*corev1beta1.Shoot); ok {
			keepWindow(shoot, old.(*corev1beta1.Shoot))
		}
	}
	return kind, object, old
}

// keepWindow makes the default windows of both objects equal, because they are random.
func keepWindow(shoot, old *corev1beta1.Shoot) {
	if shoot.Spec.Maintenance != nil && old.Spec.Maintenance != nil {
		shoot.Spec.Maintenance.TimeWindow = old.Spec.Maintenance.TimeWindow
	}
}

func features(t *testing.T, set map[string]bool) corev1beta1.Features {
	t.Helper()
	features := corev1beta1.DefaultFeatures()
	raw, err := json.Marshal(set)
	if err == nil {
		var strict []error
		strict, err = kjson.UnmarshalStrict(raw, &features)
		if len(strict) > 0 {
			t.Fatal(strict)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return features
}

func checkDefaults(t *testing.T, c Case, object validation.Object) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var manifest map[string]any
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	for at, want := range c.Defaults {
		if diff := cmp.Diff(want, Get(manifest, at)); diff != "" {
			t.Errorf("%s\ndefault of %s mismatch (-want +got):\n%s", c.Name, at, diff)
		}
	}
}

func checkWarnings(t *testing.T, c Case, warnings []string) {
	t.Helper()
	for _, want := range c.Warnings {
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("%s\nno warning contains %q: %q", c.Name, want, warnings)
		}
	}
	for _, warning := range warnings {
		if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(warning, w) }) {
			t.Errorf("%s\nunexpected warning %q", c.Name, warning)
		}
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s mismatch; rewrite with -update (-want +got):\n%s", path, diff)
	}
}
