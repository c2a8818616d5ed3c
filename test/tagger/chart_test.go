package main

import (
	"os"
	"testing"

	"hortus.dev/hortus/internal/chart"
)

// TestChartHasWhatExtensionsOfOthersHave: the chart can be rendered, and contains what the story is about.
func TestChartHasWhatExtensionsOfOthersHave(t *testing.T) {
	loaded, err := chart.LoadFS(os.DirFS("../e2e/testdata"), "tagger")
	if err != nil {
		t.Fatal(err)
	}
	release := chart.Release{Name: "tagger", Namespace: "extension-tagger-local-1"}
	objects, err := chart.Render(loaded, release, map[string]any{"image": "example.com/tagger:0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range objects {
		kinds[o.GetKind()]++
		if version := o.GetAPIVersion(); o.GetKind() == "PodDisruptionBudget" && version != "policy/v1" {
			t.Errorf("the PodDisruptionBudget is of %s, which current API servers do not offer", version)
		}
	}
	for _, kind := range []string{
		"Deployment", "ServiceAccount", "VerticalPodAutoscaler", "ClusterRole", "PodDisruptionBudget",
	} {
		if kinds[kind] != 1 {
			t.Errorf("the chart has %d objects of kind %s", kinds[kind], kind)
		}
	}
	if kinds["Service"] != 2 || len(objects) != 10 {
		t.Errorf("the chart has objects of the kinds %v", kinds)
	}
}
