package chart

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// withDependencies is a chart whose subcharts each render a ConfigMap with the name and the size of the subchart.
var withDependencies = fstest.MapFS{
	"c/Chart.yaml": {Data: []byte(`
apiVersion: v2
name: demo
version: 0.1.0
dependencies:
- {name: always, version: 0.1.0}
- {name: metrics, version: 0.1.0, condition: metrics.enabled}
- {name: extra, version: 0.1.0, tags: [extras]}
- {name: store, version: 0.1.0, alias: main}
- {name: store, version: 0.1.0, alias: spare, condition: spare.enabled}
- {name: exporter, version: 0.1.0, import-values: [{child: data, parent: imported}]}
`)},
	"c/values.yaml": {Data: []byte("spare: {enabled: false}\nmain: {size: 3}\ntags: {extras: false}\n")},
	"c/templates/a.yaml": {Data: []byte(
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}\ndata: {size: {{ .Values.imported.size | quote }}}\n")},
	"c/charts/always/Chart.yaml":               subchart("always"),
	"c/charts/always/templates/a.yaml":         named,
	"c/charts/metrics/Chart.yaml":              subchart("metrics"),
	"c/charts/metrics/templates/a.yaml":        named,
	"c/charts/metrics/crds/a.yaml":             {Data: []byte(definition)},
	"c/charts/extra/Chart.yaml":                subchart("extra"),
	"c/charts/extra/templates/a.yaml":          named,
	"c/charts/store/Chart.yaml":                subchart("store"),
	"c/charts/store/values.yaml":               {Data: []byte("size: 1\n")},
	"c/charts/store/templates/a.yaml":          named,
	"c/charts/exporter/Chart.yaml":             subchart("exporter"),
	"c/charts/exporter/values.yaml":            {Data: []byte("data: {size: 7}\n")},
	"c/charts/exporter/templates/_nothing.tpl": {Data: []byte("")},
}

const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: of-metrics}\n"

var named = &fstest.MapFile{Data: []byte(
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Chart.Name }}}\ndata: {size: {{ .Values.size | quote }}}\n")}

func subchart(name string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n")}
}

// TestDependencies: conditions, tags, aliases and imported values of dependencies work as with Helm, each time that
// the same chart is rendered.
func TestDependencies(t *testing.T) {
	c, err := LoadFS(withDependencies, "c")
	if err != nil {
		t.Fatal(err)
	}
	enabled := map[string]any{"enabled": true}
	for _, tc := range []struct {
		name   string
		values map[string]any
		want   []string
	}{
		{
			"values of the chart", nil,
			[]string{"CustomResourceDefinition of-metrics ", "always ", "demo 7", "main 3", "metrics "},
		},
		{
			"a dependency is disabled", map[string]any{"metrics": map[string]any{"enabled": false}},
			[]string{"always ", "demo 7", "main 3"},
		},
		{
			"one with a tag is enabled", map[string]any{"tags": map[string]any{"extras": true}},
			[]string{"CustomResourceDefinition of-metrics ", "always ", "demo 7", "extra ", "main 3", "metrics "},
		},
		{
			"the second of the same chart is enabled", map[string]any{"spare": enabled},
			[]string{"CustomResourceDefinition of-metrics ", "always ", "demo 7", "main 3", "metrics ", "spare 1"},
		},
		{
			"imported values are overridden", map[string]any{"imported": map[string]any{"size": 9}},
			[]string{"CustomResourceDefinition of-metrics ", "always ", "demo 9", "main 3", "metrics "},
		},
		{
			"values of the chart, again", nil,
			[]string{"CustomResourceDefinition of-metrics ", "always ", "demo 7", "main 3", "metrics "},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects, err := Render(c, Release{Name: "r", Namespace: "n"}, tc.values)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				if o.GetKind() != "ConfigMap" {
					got = append(got, o.GetKind()+" "+o.GetName()+" ")
					continue
				}
				size, _ := o.Object["data"].(map[string]any)["size"].(string)
				got = append(got, o.GetName()+" "+size)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rendered objects mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
