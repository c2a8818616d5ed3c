package charts_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/golden"
)

// gardenValues are what the landscape's installer passes.
func gardenValues() map[string]any {
	return map[string]any{
		"image": "hortus.dev/hortus:test",
		"caCrt": "CA",
		"apiserver": map[string]any{
			"tlsCrt": "CRT", "tlsKey": "KEY", "encryptionKey": "a2V5", "args": []any{"--feature-gates=A=true"},
		},
		"etcd": map[string]any{
			"image": "registry.k8s.io/etcd:test", "serverCrt": "SCRT", "serverKey": "SKEY", "clientCrt": "CCRT", "clientKey": "CKEY",
			"backup": map[string]any{"store": map[string]any{"accessKeyID": "ID", "secretAccessKey": "SECRET", "bucketName": "hortus-garden"}},
		},
		"controllerManager": map[string]any{"replicas": 2},
		"scheduler":         map[string]any{"replicas": 2},
	}
}

func TestGardenIsRenderedAsReviewed(t *testing.T) {
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, gardenValues())
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for _, o := range objects {
		all = append(all, o)
	}
	golden.Objects(t, "garden", all...)
}
