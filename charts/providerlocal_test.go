package charts_test

import (
	"testing"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

func TestProviderLocalRenders(t *testing.T) {
	c, err := chart.LoadFS(charts.FS, "provider-local")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(c, chart.Release{Name: "provider-local", Namespace: "extension-provider-local"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range objects {
		kinds[o.GetKind()]++
	}
	for kind, want := range map[string]int{
		"Deployment": 1, "ServiceAccount": 1, "ClusterRole": 1, "ClusterRoleBinding": 1, "Role": 1, "RoleBinding": 1,
		"Service": 1,
	} {
		if kinds[kind] != want {
			t.Errorf("the chart has %d of %s, want %d", kinds[kind], kind, want)
		}
	}
}
