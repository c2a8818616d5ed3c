package chart

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// serverLists are what a server reports that has one API.
func serverLists(groupVersion, kind string) ([]*metav1.APIGroup, []*metav1.APIResourceList) {
	return []*metav1.APIGroup{{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: groupVersion}}}},
		[]*metav1.APIResourceList{{GroupVersion: groupVersion, APIResources: []metav1.APIResource{
			{Name: "things", Kind: kind}, {Name: "things/status", Kind: kind},
		}}}
}

// TestCapabilities lists what templates see of the cluster.
func TestCapabilities(t *testing.T) {
	archive, err := LoadFS(fstest.MapFS{
		"c/Chart.yaml": {Data: []byte("apiVersion: v2\nname: demo\nversion: 0.1.0\n")},
		"c/templates/a.yaml": {Data: []byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  git: {{ .Capabilities.KubeVersion.GitVersion | quote }}
  version: {{ .Capabilities.KubeVersion.Version | quote }}
  minor: {{ .Capabilities.KubeVersion.Minor | quote }}
  recent: {{ semverCompare ">= 1.21-0" .Capabilities.KubeVersion.GitVersion | quote }}
  core: {{ .Capabilities.APIVersions.Has "v1" | quote }}
  old: {{ .Capabilities.APIVersions.Has "policy/v1beta1" | quote }}
  new: {{ .Capabilities.APIVersions.Has "policy/v1/PodDisruptionBudget" | quote }}
`)},
	}, "c")
	if err != nil {
		t.Fatal(err)
	}
	groups, resources := serverLists("policy/v1", "PodDisruptionBudget")
	core := &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}}}
	for name, tc := range map[string]struct {
		capabilities Capabilities
		want         map[string]string
	}{
		"of a server": {
			CapabilitiesOf(apiversion.Info{Major: "1", Minor: "35+", GitVersion: "v1.35.4-of.a.provider"}, groups,
				append(resources, core)),
			map[string]string{
				"git": "v1.35.4-of.a.provider", "version": "v1.35.4-of.a.provider", "minor": "35+", "recent": "true",
				"core": "true", "old": "false", "new": "true",
			},
		},
		"of what Hortus is built for": {Capabilities{}, map[string]string{
			"git": KubernetesVersion, "version": KubernetesVersion, "minor": kubernetesMinor, "recent": "true",
			"core": "true", "old": "true", "new": "false",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Render(archive, Release{Name: "r", Namespace: "n", Capabilities: tc.capabilities}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := unstructured.NestedStringMap(objects[0].Object, "data")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKubernetesVersionIsThatOfTheModules: v0.36.3 of a module belongs to Kubernetes v1.36.3.
func TestKubernetesVersionIsThatOfTheModules(t *testing.T) {
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.ParseLax("go.mod", content, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Require {
		if r.Mod.Path == "k8s.io/api" {
			if want := "v1" + r.Mod.Version[len("v0"):]; KubernetesVersion != want {
				t.Errorf("KubernetesVersion is %s, want %s", KubernetesVersion, want)
			}
			return
		}
	}
	t.Error("go.mod does not require k8s.io/api")
}

func TestKindsOfAGroupThatDoesNotAnswer(t *testing.T) {
	groups, resources := serverLists("metrics.k8s.io/v1", "PodMetrics")
	earlier := CapabilitiesOf(apiversion.Info{GitVersion: "v1.35.0"}, groups, resources)
	now := CapabilitiesOf(apiversion.Info{GitVersion: "v1.36.0"}, nil, nil).WithKindsOf(earlier, "metrics.k8s.io/v1")
	if !now.Has("metrics.k8s.io/v1") || !now.Has("metrics.k8s.io/v1/PodMetrics") || now.Version() != "v1.36.0" {
		t.Errorf("the capabilities are %+v", now)
	}
	if without := now.WithKindsOf(Capabilities{}, "other.k8s.io/v1"); !without.Has("other.k8s.io/v1") ||
		without.Has("other.k8s.io/v1/PodMetrics") {
		t.Errorf("the capabilities are %+v", without)
	}
}
