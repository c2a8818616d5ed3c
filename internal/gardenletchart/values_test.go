package gardenletchart

import (
	"testing"

	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

func TestImages(t *testing.T) {
	for parent, want := range map[string]string{
		"registry.example:5000/hortus:1":        "registry.example:5000/hortus:2",
		"registry.example:5000/hortus":          "registry.example:5000/hortus:2",
		"registry.example:5000/a/hortus:":       "registry.example:5000/a/hortus:2",
		"registry.example/hortus:1@sha256:0123": "registry.example/hortus:2",
	} {
		if got := imageOf(&seedmanagementv1alpha1.Image{Tag: new("2")}, parent); got != want {
			t.Errorf("tag 2 of %s is %s, want %s", parent, got, want)
		}
	}
	const parent = "registry.example/hortus:1@sha256:0123"
	if got := imageOf(&seedmanagementv1alpha1.Image{}, parent); got != parent {
		t.Errorf("the image of the parent is %s", got)
	}
	if got := imageOf(&seedmanagementv1alpha1.Image{Ref: new("whole@sha256:1")}, "a:b"); got != "whole@sha256:1" {
		t.Errorf("ref is %s", got)
	}
}
