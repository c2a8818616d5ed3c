package test

import (
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/test/env"
)

// TestPlaceholdersReplaceNothing: a seed serves the kinds of other projects, and does not change the definitions of
// operators, whether they were created before or later.
func TestPlaceholdersReplaceNothing(t *testing.T) {
	w := newWorld(t)
	other := env.Start(t, env.WithCRDs(crds.Seed()...), seedScheme)
	s := w.newSeed(other.Client)
	keeper := s.keeper()
	wanted := crds.Placeholders()
	operators := func(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
		v := &d.Spec.Versions[0]
		v.Schema.OpenAPIV3Schema.Description, v.Schema.OpenAPIV3Schema.XPreserveUnknownFields = "An operator's.", nil
		return d
	}
	before := operators(wanted[0].DeepCopy())
	before.Labels = nil
	w.must(other.Client.Create(w.ctx, before))
	definition := func(i int) *apiextensionsv1.CustomResourceDefinition {
		d := &apiextensionsv1.CustomResourceDefinition{}
		w.must(other.Client.Get(w.ctx, client.ObjectKeyFromObject(wanted[i]), d))
		return d
	}
	isOperators := func(i int) bool {
		return definition(i).Spec.Versions[0].Schema.OpenAPIV3Schema.Description == "An operator's."
	}

	w.must(s.stepSeed(keeper))
	if !isOperators(0) {
		t.Error("the definition of an operator was replaced")
	}
	for i := range wanted[1:] {
		if d := definition(i + 1); d.Labels[crds.LabelPlaceholder] != "true" {
			t.Errorf("labels of %s = %v", d.Name, d.Labels)
		}
	}

	// An operator installs a definition later, and the installer keeps the metadata, as "kubectl apply" does.
	earlier := definition(1)
	w.must(other.Client.Patch(w.ctx, operators(earlier.DeepCopy()), client.MergeFrom(earlier)))
	// An earlier version has created others differently.
	for _, i := range []int{1, 2} {
		earlier := definition(i)
		d := earlier.DeepCopy()
		d.Annotations = nil
		if i == 1 {
			d.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved"}
		}
		w.must(other.Client.Patch(w.ctx, d, client.MergeFrom(earlier)))
	}
	w.must(s.stepSeed(keeper))
	if !isOperators(1) {
		t.Error("the definition that an operator installed later was replaced")
	}
	if d := definition(2); len(d.Annotations) == 0 {
		t.Errorf("annotations of %s = %v, want the checksum", d.Name, d.Annotations)
	}
	contents := func() (out []string) { // Without the status, which the kube-apiserver writes in its own time.
		for i := range wanted {
			d := definition(i)
			out = append(out, fmt.Sprint(d.UID, d.Generation, d.Labels, d.Annotations))
		}
		return out
	}
	old := contents()
	w.must(s.stepSeed(keeper))
	for i, now := range contents() {
		if now != old[i] {
			t.Errorf("definition %s was changed without a reason: %s, before %s", wanted[i].Name, now, old[i])
		}
	}
}
