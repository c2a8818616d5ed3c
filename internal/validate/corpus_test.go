package validate

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/api/corpus"
	"hortus.dev/hortus/internal/manifest"
)

// different are cases that are not manifests as users apply them.
var different = map[string]string{
	"shoot/a-version-is-required-after-admission.yaml":         "offline an empty version is completed, if the profile is there",
	"shoot/a-pool-cannot-change-to-rolling-updates.yaml":       "kubectl apply keeps stored defaults, a replacement does not",
	"shoot/a-pool-may-change-who-starts-updates-in-place.yaml": "kubectl apply keeps stored defaults, a replacement does not",
}

// TestCorpus checks that the command reports the same errors as the API server, with the cases of both.
func TestCorpus(t *testing.T) {
	cases, err := corpus.Load(os.DirFS("../../api/testdata/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Server != "" || c.Operation == corpus.StatusUpdate {
			continue // The server responds differently, and manifests are not updates of a status.
		}
		if different[c.File] != "" {
			continue
		}
		t.Run(strings.TrimSuffix(c.File, ".yaml"), func(t *testing.T) {
			options := Options{
				Features: featuresOf(t, c.Features), Now: c.Now, Namespace: "default", Update: c.Operation == corpus.Update,
			}
			var old []document
			if options.Update {
				old = []document{documentOf(t, c.Old)}
			}
			result := check([]document{documentOf(t, c.Object)}, old, options)[0]
			var got, want []string
			for _, p := range result.Problems {
				got = append(got, corpus.NewError(&field.Error{Type: field.ErrorType(p.Type), Field: p.Field}).String())
			}
			for _, e := range c.Errors {
				want = append(want, e.String())
			}
			slices.Sort(got)
			slices.Sort(want)
			// A repeated error is shown once.
			if diff := cmp.Diff(slices.Compact(want), slices.Compact(got)); diff != "" {
				t.Errorf("%s\nproblems mismatch (-want +got):\n%s\n%+v", c.Name, diff, result.Problems)
			}
			for _, warning := range result.Warnings {
				if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(warning, w) }) {
					t.Errorf("%s\nunexpected warning %q", c.Name, warning)
				}
			}
			for _, w := range c.Warnings {
				if !slices.ContainsFunc(result.Warnings, func(warning string) bool { return strings.Contains(warning, w) }) {
					t.Errorf("%s\nno warning contains %q: %q", c.Name, w, result.Warnings)
				}
			}
		})
	}
}

func documentOf(t *testing.T, fields map[string]any) document {
	t.Helper()
	object, err := manifest.FromFields(fields)
	if err != nil {
		t.Fatal(err)
	}
	return newDocument(object)
}

func featuresOf(t *testing.T, set map[string]bool) corev1beta1.Features {
	t.Helper()
	features := corev1beta1.DefaultFeatures()
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if strict, err := kjson.UnmarshalStrict(raw, &features); err != nil || len(strict) > 0 {
		t.Fatal(err, strict)
	}
	return features
}
