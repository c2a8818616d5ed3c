package seed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hortus.dev/hortus/internal/crds"
)

func TestPlaceholdersThatAreApplied(t *testing.T) {
	wanted := func() []*apiextensionsv1.CustomResourceDefinition { return crds.Placeholders()[:2] }
	first, second := wanted()[0].Name, wanted()[1].Name
	existing := func(label, checksum string) []metav1.PartialObjectMetadata {
		o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: first}}
		if label != "" {
			o.Labels = map[string]string{crds.LabelPlaceholder: label}
		}
		if checksum != "" {
			o.Annotations = map[string]string{annotationDefinition: checksum}
		}
		return []metav1.PartialObjectMetadata{o}
	}
	current := definitionChecksum(wanted()[0])
	for name, tc := range map[string]struct {
		existing []metav1.PartialObjectMetadata
		want     []string
	}{
		"all, in an empty seed":                      {nil, []string{first, second}},
		"the others, if one is up to date":           {existing("true", current), []string{second}},
		"also one that an earlier version created":   {existing("true", "0123"), []string{first, second}},
		"also one whose checksum was removed":        {existing("true", ""), []string{first, second}},
		"none that somebody else has installed":      {existing("", ""), []string{second}},
		"none whose label somebody else has changed": {existing("false", "0123"), []string{second}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range placeholders(wanted(), tc.existing) {
				if got = append(got, d.Name); d.Annotations[annotationDefinition] == "" {
					t.Errorf("definition %s has no checksum", d.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("placeholders() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
