package steps

import (
	"strings"
	"testing"

	"hortus.dev/hortus/internal/image"
)

// TestAllImagesComeFromTheRepositories: every image of a control plane and of machines is replaced.
func TestAllImagesComeFromTheRepositories(t *testing.T) {
	repositories := image.Repositories{}
	for _, name := range image.Replaceable {
		repositories[name] = "registry.example/own/" + name
	}
	i := ImagesFrom("hortus.dev/hortus:v1", repositories)
	for _, got := range []string{
		i.Hortus, i.CoreDNS, i.Pause, i.KubeAPIServer("1.36.3"), i.KubeControllerManager("1.36.3"), i.KubeScheduler("1.36.3"),
		i.KubeProxy("1.36.3"), i.Kubelet("1.36.3"),
	} {
		if !strings.HasPrefix(got, "registry.example/own/") {
			t.Errorf("%s is not in a repository of the configuration", got)
		}
	}
	if got := ImagesFrom("a/b:c", nil); got.Hortus != "a/b:c" || got.KubeProxy("1.36.3") != image.KubeProxy("1.36.3") {
		t.Errorf("without repositories the images are %s and %s", got.Hortus, got.KubeProxy("1.36.3"))
	}
}
