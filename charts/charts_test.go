package charts_test

import (
	"testing"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

func TestGardenRenders(t *testing.T) {
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"caCrt": "ca", "apiserver": map[string]any{"tlsCrt": "crt", "tlsKey": "key", "encryptionKey": "a2V5"},
	}
	objects, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, values)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range objects {
		kinds[o.GetKind()]++
	}
	for kind, want := range map[string]int{"Deployment": 3, "StatefulSet": 1, "APIService": 5, "Namespace": 4} {
		if kinds[kind] != want {
			t.Errorf("the chart has %d of %s, want %d", kinds[kind], kind, want)
		}
	}
	if _, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, nil); err == nil {
		t.Error("the chart renders without an encryption key")
	}
}
