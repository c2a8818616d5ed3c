package cli_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/cli"
)

// TestProgramsOfTheGardenKnowTheirArguments: the arguments of the chart's pods are flags that the program has.
func TestProgramsOfTheGardenKnowTheirArguments(t *testing.T) {
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"image": "hortus.dev/hortus:test",
		"caCrt": "CA",
		"apiserver": map[string]any{
			"tlsCrt": "CRT", "tlsKey": "KEY", "encryptionSecret": "hortus-apiserver-encryption",
			"clusterIdentity": "landscape-1",
		},
		"etcd": map[string]any{
			"serverCrt": "SCRT", "serverKey": "SKEY", "clientCrt": "CCRT", "clientKey": "CKEY",
			"backup": map[string]any{
				"store": map[string]any{
					"accessKeyID": "ID", "secretAccessKey": "SECRET", "bucketName": "hortus-garden",
				},
				"restore": map[string]any{"id": "1", "untilTime": "2026-01-31T15:04:05Z"},
			},
		},
		"seedAuthorizer": map[string]any{"enabled": true},
	}
	objects, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, values)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, o := range objects {
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		for _, container := range containers {
			args, _, err := unstructured.NestedStringSlice(container.(map[string]any), "args")
			if err != nil {
				t.Fatal(err)
			}
			command, flags, err := cli.NewCommand().Find(args)
			if err == nil {
				err = command.ParseFlags(flags)
			}
			if err != nil {
				t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
			checked++
		}
	}
	if checked != 4 {
		t.Errorf("%d containers were checked, want 4", checked)
	}
}
