package charts_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/golden"
)

// gardenValues are the values that the landscape's installer passes.
func gardenValues() map[string]any {
	return map[string]any{
		"image": "hortus.dev/hortus:test",
		"caCrt": "CA",
		"apiserver": map[string]any{
			"tlsCrt": "CRT", "tlsKey": "KEY", "encryptionSecret": "hortus-apiserver-encryption",
			"args": []any{"--feature-gates=A=true"},
		},
		"etcd": map[string]any{
			"serverCrt": "SCRT", "serverKey": "SKEY", "clientCrt": "CCRT", "clientKey": "CKEY",
			"backup": map[string]any{"store": map[string]any{
				"accessKeyID": "ID", "secretAccessKey": "SECRET", "bucketName": "hortus-garden",
			}},
		},
		"seedAuthorizer": map[string]any{"enabled": true},
	}
}

func TestGardenIsRenderedAsReviewed(t *testing.T) {
	checkRendered(t, "garden", gardenValues(), "garden")
}

// TestGardenOfThreeMembersIsRenderedAsReviewed has no backups: members reach each other, and nothing else.
func TestGardenOfThreeMembersIsRenderedAsReviewed(t *testing.T) {
	values := gardenValues()
	etcd := values["etcd"].(map[string]any)
	etcd["replicas"] = 3
	delete(etcd, "backup")
	checkRendered(t, "garden", values, "garden-three-members")
}

func TestGardenletIsRenderedAsReviewed(t *testing.T) {
	checkRendered(t, "gardenlet", map[string]any{
		"gardenKubeconfig": "KUBECONFIG",
		"config": map[string]any{
			"gardenClientConnection": map[string]any{"kubeconfigValidity": map[string]any{"validity": "2160h"}},
			"seedConfig":             map[string]any{"metadata": map[string]any{"name": "own"}},
		},
	}, "gardenlet")
}

func TestGardenletThatJoinsIsRenderedAsReviewed(t *testing.T) {
	checkRendered(t, "gardenlet", map[string]any{
		"bootstrapKubeconfig": "BOOTSTRAP",
		"config":              map[string]any{"seedConfig": map[string]any{"metadata": map[string]any{"name": "own"}}},
	}, "gardenlet-joins")
}

func TestProviderLocalIsRenderedAsReviewed(t *testing.T) {
	checkRendered(t, "provider-local", map[string]any{"image": "hortus.dev/hortus:test"}, "provider-local")
}

// rendered are the objects of a chart.
func rendered(t *testing.T, name string, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	c, err := chart.LoadFS(charts.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(c, chart.Release{Name: name, Namespace: "garden"}, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// checkRendered compares a chart with its golden file. Helm rejects a chart that has an object twice.
func checkRendered(t *testing.T, name string, values map[string]any, file string) {
	t.Helper()
	var all []client.Object
	seen := map[string]bool{}
	for _, o := range rendered(t, name, values) {
		key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if seen[key] {
			t.Errorf("the chart has %s twice", key)
		}
		seen[key] = true
		all = append(all, o)
	}
	golden.Objects(t, file, all...)
}
