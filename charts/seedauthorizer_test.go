package charts_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

// Without the seed authorizer gardenlets need a role; with it, none.
func TestRoleOfGardenlets(t *testing.T) {
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	for enabled, want := range map[bool]bool{true: false, false: true} {
		values := gardenValues()
		values["seedAuthorizer"] = map[string]any{"enabled": enabled}
		objects, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, values)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, o := range objects {
			if o.GetKind() != "ClusterRole" || o.GetName() != "gardener.cloud:system:seeds" {
				continue
			}
			found = true
			rules, _, err := unstructured.NestedSlice(o.Object, "rules")
			if err != nil {
				t.Fatal(err)
			}
			if got := len(rules) > 0; got != want {
				t.Errorf("seedAuthorizer.enabled=%t: the role has %d rules", enabled, len(rules))
			}
		}
		if !found {
			t.Error("the role is not rendered")
		}
	}
}
