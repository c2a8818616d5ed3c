package chart

import (
	"strings"
	"testing"
	"testing/fstest"

	apiversion "k8s.io/apimachinery/pkg/version"
)

// TestKubeVersion: a chart is rendered for clusters that its kubeVersion includes, as Helm does, and for no others.
func TestKubeVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeVersion, cluster string
		want                 []string // In the error; none: it is rendered.
	}{
		"none":                {"", "v1.35.4", nil},
		"included":            {">=1.30.0", "v1.35.4", nil},
		"a range of minors":   {"1.34.x - 1.35.x", "v1.35.4", nil},
		"of a provider":       {">=1.30.0-0", "v1.35.4-of.a.provider", nil},
		"of what Hortus uses": {">=1.36.0", "", nil},
		"a newer one":         {">=1.36.0", "v1.35.4", []string{`"demo"`, `">=1.36.0"`, "v1.35.4"}},
		"an older one":        {"<1.30.0-0", "v1.35.4", []string{`"demo"`, `"<1.30.0-0"`, "v1.35.4"}},
		// Ranges include pre-releases only if they name one; this surprises many authors of charts.
		"of a provider, which the range does not admit": {
			">=1.30.0", "v1.35.4-of.a.provider", []string{`">=1.30.0"`, "v1.35.4-of.a.provider"},
		},
		"no range": {"new", "v1.35.4", []string{`"demo"`, `invalid value: "new"`}},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := "apiVersion: v2\nname: demo\nversion: 0.1.0\n"
			if tc.kubeVersion != "" {
				metadata += "kubeVersion: \"" + tc.kubeVersion + "\"\n"
			}
			c, err := LoadFS(fstest.MapFS{
				"c/Chart.yaml":       {Data: []byte(metadata)},
				"c/templates/a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
			}, "c")
			if err != nil {
				t.Fatal(err)
			}
			of := CapabilitiesOf(apiversion.Info{GitVersion: tc.cluster}, nil, nil)
			objects, err := Render(c, Release{Name: "r", Namespace: "n", Capabilities: of}, nil)
			if len(tc.want) == 0 {
				if err != nil || len(objects) != 1 {
					t.Errorf("Render() = %v, %v", objects, err)
				}
				return
			}
			if err == nil {
				t.Fatal("it is rendered")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Render() = %v, want %s in it", err, want)
				}
			}
		})
	}
}
