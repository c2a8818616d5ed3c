package chart

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestRender(t *testing.T) {
	fsys := fstest.MapFS{
		"charts/demo/Chart.yaml":  {Data: []byte("apiVersion: v2\nname: demo\nversion: 0.1.0\n")},
		"charts/demo/values.yaml": {Data: []byte("replicas: 1\n")},
		"charts/demo/templates/a.yaml": {
			Data: []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: demo, namespace: {{ .Release.Namespace }}}\nspec: {replicas: {{ .Values.replicas }}}\n---\n---\napiVersion: example.com/v1\nkind: Strange\nmetadata: {name: x}\n"),
		},
		"charts/demo/templates/b.yaml": {
			Data: []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: {{ .Release.Namespace }}}\n"),
		},
		"charts/demo/templates/list.yaml": {
			Data: []byte("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ServiceAccount\n  metadata: {name: sa}\n"),
		},
		"charts/demo/templates/NOTES.txt":  {Data: []byte("hello")},
		"charts/demo/templates/_part.tpl":  {Data: []byte(`{{- define "x" }}{{ end }}`)},
		"charts/demo/templates/empty.yaml": {Data: []byte("{{ if false }}x{{ end }}")},
		"charts/demo/crds/strange.crd.yaml": {
			Data: []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: stranges.example.com}\n"),
		},
	}
	c, err := LoadFS(fsys, "charts/demo")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Render(c, Release{Name: "demo", Namespace: "here"}, map[string]any{"replicas": 3})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.GetKind()+"/"+o.GetName())
	}
	want := []string{
		"Namespace/here", "ServiceAccount/sa", "CustomResourceDefinition/stranges.example.com", "Deployment/demo",
		"Strange/x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rendered objects mismatch (-want +got):\n%s", diff)
	}
	replicas := objects[3].Object["spec"].(map[string]any)["replicas"]
	if diff := cmp.Diff(int64(3), replicas); diff != "" {
		t.Errorf("given values do not override the chart's (-want +got):\n%s", diff)
	}
}

func TestArchiveLoadsAgain(t *testing.T) {
	fsys := fstest.MapFS{
		"c/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: demo\nversion: 0.1.0\n")},
		"c/templates/a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Values.name }}}\n")},
	}
	archive, err := Archive(fsys, "c", "demo")
	if err != nil {
		t.Fatal(err)
	}
	c, err := LoadArchive(archive)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Render(c, Release{Name: "r", Namespace: "n"}, map[string]any{"name": "x"})
	if err != nil || len(objects) != 1 || objects[0].GetName() != "x" {
		t.Errorf("rendered %v, %v from the archive", objects, err)
	}
	if again, _ := Archive(fsys, "c", "demo"); string(again) != string(archive) {
		t.Error("two archives of the same chart differ")
	}
}
