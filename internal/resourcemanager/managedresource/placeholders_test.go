package managedresource

import (
	"context"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/component/shootsystem"
	"hortus.dev/hortus/internal/crds"
)

// TestDefinitionsOfTheVerticalAutoscaler: a Shoot gets the definitions that it lacks. Those of a user are neither
// changed nor deleted, and no definition is deleted when the autoscaler is switched off.
func TestDefinitionsOfTheVerticalAutoscaler(t *testing.T) {
	f := newFixture(t, "", nil)
	render := func(enabled bool) map[string]string {
		t.Helper()
		var objects []client.Object
		v := shootsystem.Values{}
		if enabled {
			v.Definitions = crds.PlaceholdersOf(crds.GroupVerticalAutoscaler)
		}
		for _, o := range shootsystem.Render(v) {
			if _, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
				objects = append(objects, o)
			}
		}
		if found := len(objects) > 0; found != enabled {
			t.Fatalf("there are definitions: %t, want %t", found, enabled)
		}
		data, err := managedresource.Encode(f.target.Scheme(), objects)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"a": string(data)}
	}
	read := func(name string) *apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := f.target.Get(context.Background(), client.ObjectKey{Name: name + ".autoscaling.k8s.io"}, d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	const ofUser, ours = "verticalpodautoscalers", "verticalpodautoscalercheckpoints"
	theirs := &apiextensionsv1.CustomResourceDefinition{}
	theirs.Name = ofUser + ".autoscaling.k8s.io"
	theirs.Spec.Group, theirs.Labels = "autoscaling.k8s.io", map[string]string{"app": "autoscaler-of-a-user"}
	if err := f.target.Create(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	before := read(ofUser).ResourceVersion

	f.setData(render(true))
	f.reconcile()
	f.wantConditions("True ApplySucceeded", "True ResourcesHealthy", "False ResourcesRolledOut")
	created := read(ours)
	if len(created.Spec.Versions) == 0 {
		t.Errorf("the definition has no versions: %+v", created.Spec)
	}
	created.Labels = map[string]string{"app": "autoscaler-of-a-user"} // Installed later.
	if err := f.target.Update(context.Background(), created); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	later := read(ours).ResourceVersion
	if later != created.ResourceVersion {
		t.Error("a definition that a user has installed later is changed")
	}

	f.setData(render(false))
	f.reconcile()
	if err := f.source.Delete(context.Background(), f.mr()); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	for name, version := range map[string]string{ofUser: before, ours: later} {
		if d := read(name); d.ResourceVersion != version || d.DeletionTimestamp != nil {
			t.Errorf("definition %s is changed: %+v", name, d.ObjectMeta)
		}
	}
}
