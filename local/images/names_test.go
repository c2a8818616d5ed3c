package images

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/components"
)

func TestNamesAreCompleteReferences(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range Names() {
		if seen[n] {
			t.Errorf("%s is listed twice", n)
		}
		seen[n] = true
		if _, err := name.NewTag(n, name.StrictValidation); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
	for _, n := range Defaults() {
		if !seen[n] {
			t.Errorf("default image %s is not in the table", n)
		}
	}
}

func TestPublicNames(t *testing.T) {
	got := []string{
		image.Pause, image.Etcd, image.CoreDNS, image.Hortus(), Echo, Machine("1.1.0"),
		image.KubeAPIServer("1.36.3"), image.KubeAPIServer("v1.36.3"),
		image.KubeProxy("1.34.4"), image.Kubelet("1.35.4"),
	}
	want := []string{
		"registry.k8s.io/pause:3.10.1", "registry.k8s.io/etcd:3.6.8-0", "registry.k8s.io/coredns/coredns:v1.14.7",
		"hortus.dev/hortus:dev", "hortus.dev/echo:1.0.0", "hortus.dev/machine:1.1.0",
		"registry.k8s.io/kube-apiserver:v1.36.3", "registry.k8s.io/kube-apiserver:v1.36.3",
		"registry.k8s.io/kube-proxy:v1.34.4", "hortus.dev/kubelet:v1.35.4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names mismatch (-want +got):\n%s", diff)
	}
}

func TestSelect(t *testing.T) {
	for label, tc := range map[string]struct {
		names []string
		want  []string
		fails bool
	}{
		"the full name":              {names: []string{image.Etcd}, want: []string{image.Etcd}},
		"the last part with its tag": {names: []string{"machine:1.0.0"}, want: []string{Machine("1.0.0")}},
		"the last part without tag": {
			names: []string{"machine"}, want: []string{Machine("1.2.0"), Machine("1.1.0"), Machine("1.0.0")},
		},
		"build order":     {names: []string{"echo", "pause:3.10.1"}, want: []string{image.Pause, Echo}},
		"those of tests":  {names: []string{"e2e"}, want: E2E()},
		"an unknown name": {names: []string{"apache"}, fails: true},
		"an unknown tag":  {names: []string{"machine:9"}, fails: true},
	} {
		t.Run(label, func(t *testing.T) {
			got, err := Select(tc.names...)
			if (err != nil) != tc.fails {
				t.Fatalf("Select() error = %v, want error: %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Select() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryImageHasARecipe(t *testing.T) {
	from := sources{
		artifacts: "out", hortus: "hortus", machineInit: "init", cniPolicy: "cni-policy", echo: "echo",
		distribution: []Entry{{Path: "bin/busybox", Source: "busybox"}, {Path: "bin/sh"}, {Path: "usr/bin/id"}},
		tools:        []Entry{{Path: "usr/bin/dig", Source: "dig"}, {Path: "bin/bash"}},
	}
	for _, n := range Names() {
		r, err := recipeFor(n, from)
		if err != nil {
			t.Errorf("recipeFor(%s): %v", n, err)
			continue
		}
		files := map[string]bool{}
		for _, layer := range r.layers {
			sorted, err := normalize(layer)
			if err != nil {
				t.Errorf("%s: %v", n, err)
			}
			for _, e := range sorted {
				files["/"+e.Path] = true
			}
		}
		begins := append(slices.Clone(r.entrypoint), r.cmd...)[0]
		if !files[begins] && !files["/bin/"+begins] && !files["/usr/bin/"+begins] {
			t.Errorf("%s does not contain what it runs, %s", n, begins)
		}
		if usesTools(n) != files["/usr/bin/dig"] {
			t.Errorf("%s: usesTools() = %t, but the recipe says otherwise", n, usesTools(n))
		}
		if usesDistribution(n) != files["/bin/busybox"] {
			t.Errorf("%s: usesDistribution() = %t, but the recipe says otherwise", n, usesDistribution(n))
		}
		if _, err := components.Select(components.All(), componentsOf(n)...); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
	if _, err := recipeFor("nginx:1", from); err == nil {
		t.Error("recipeFor() returns an undefined image")
	}
}

func TestImagesOfOneKubernetesVersionDifferOnlyInWhatTheyRun(t *testing.T) {
	var first []Entry
	for _, n := range image.Kubernetes("1.36.3") {
		r, err := recipeFor(n, sources{artifacts: "out"})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = r.layers[0]
		}
		if diff := cmp.Diff(first, r.layers[0]); diff != "" {
			t.Errorf("first layer of %s mismatch (-want +got):\n%s", n, diff)
		}
	}
	if len(slices.Compact(kubernetesPrograms)) != len(image.Kubernetes("1.36.3")) {
		t.Error("images and programs of a Kubernetes version do not match")
	}
}

// TestImagesOfTestsShareLayers: names and tags of the same content need no additional space.
func TestImagesOfTestsShareLayers(t *testing.T) {
	from := sources{artifacts: "out", tools: []Entry{{Path: "usr/bin/dig", Source: "dig"}}}
	for _, names := range [][]string{
		{image.Etcd, "registry.k8s.io/etcd:3.6.6-0", "registry.k8s.io/etcd:3.6.4-0"},
		{image.Pause, "registry.k8s.io/pause:3.10.2"},
		{testRepository + "agnhost:2.63.0", testRepository + "agnhost:2.59", testRepository + "agnhost:2.55"},
		{testRepository + "glibc-dns-testing:2.0.0", testRepository + "jessie-dnsutils:1.7"},
	} {
		first, err := recipeFor(names[0], from)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names[1:] {
			if !slices.Contains(E2E(), name) {
				t.Errorf("%s is not among the images of tests", name)
			}
			r, err := recipeFor(name, from)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first.layers, r.layers); diff != "" {
				t.Errorf("layers of %s and %s (-want +got):\n%s", names[0], name, diff)
			}
		}
	}
}

// TestPolicyPluginIsInImages: the agent installs the plugin from its image; machines have it before the agent runs.
func TestPolicyPluginIsInImages(t *testing.T) {
	for name, path := range map[string]string{
		image.Hortus(): "usr/local/bin/hortus-policy", Machine(MachineVersions[0]): "opt/cni/bin/hortus-policy",
	} {
		r, err := recipeFor(name, sources{artifacts: "out", cniPolicy: "plugin"})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(slices.Concat(r.layers...),
			func(e Entry) bool { return e.Path == path && e.Source == "plugin" }) {
			t.Errorf("image %s lacks %s", name, path)
		}
	}
}
