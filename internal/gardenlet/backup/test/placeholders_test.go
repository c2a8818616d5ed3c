package test

import (
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
	w.must(other.Client.Update(w.ctx, operators(definition(1))))
	// An earlier version has created others differently.
	for _, i := range []int{1, 2} {
		d := definition(i)
		d.Annotations = nil
		if i == 1 {
			d.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved"}
		}
		w.must(other.Client.Update(w.ctx, d))
	}
	w.must(s.stepSeed(keeper))
	if !isOperators(1) {
		t.Error("the definition that an operator installed later was replaced")
	}
	if d := definition(2); len(d.Annotations) == 0 {
		t.Errorf("annotations of %s = %v, want the checksum", d.Name, d.Annotations)
	}
	versions := func() (out []string) {
		for i := range wanted {
			out = append(out, definition(i).ResourceVersion)
		}
		return out
	}
	old := versions()
	w.must(s.stepSeed(keeper))
	if now := versions(); len(old) != len(now) {
		t.Errorf("%d definitions, want %d", len(now), len(old))
	} else {
		for i := range now {
			if now[i] != old[i] {
				t.Errorf("definition %s was written without a reason", wanted[i].Name)
			}
		}
	}
}
