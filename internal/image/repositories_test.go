package image

import (
	"errors"
	"strings"
	"testing"
)

func TestImagesInOtherRepositories(t *testing.T) {
	r := Repositories{
		"kube-apiserver": "registry.example:5000/k8s/apiserver", "hortus": "registry.example/hortus",
		"coredns": "registry.example/coredns",
	}
	for image, want := range map[string]string{
		KubeAPIServer("1.36.3"):                  "registry.example:5000/k8s/apiserver:v1.36.3",
		KubeScheduler("1.36.3"):                  KubeScheduler("1.36.3"),
		CoreDNS:                                  "registry.example/coredns:v" + CoreDNSVersion,
		"hortus.dev/hortus:v1@sha256:0123":       "registry.example/hortus:v1@sha256:0123",
		"elsewhere.example:5000/hortus":          "registry.example/hortus",
		"elsewhere.example:5000/hortus:v1":       "registry.example/hortus:v1",
		"elsewhere.example:5000/hortus@sha256:0": "registry.example/hortus@sha256:0",
		"pause":                                  "pause",
	} {
		if got := r.Of(image); got != want {
			t.Errorf("%s is pulled as %s, want %s", image, got, want)
		}
		if got := Repositories(nil).Of(image); got != image {
			t.Errorf("without repositories %s is pulled as %s", image, got)
		}
	}
}

func TestReplaceableNamesAreThoseOfImages(t *testing.T) {
	const elsewhere = "registry.example/elsewhere"
	all := append(Kubernetes("1.36.3"), Hortus(), CoreDNS, Pause)
	if len(all) != len(Replaceable) {
		t.Errorf("%d images have %d names", len(all), len(Replaceable))
	}
	for _, name := range Replaceable {
		found := 0
		for _, image := range all {
			if strings.HasPrefix(Repositories{name: elsewhere}.Of(image), elsewhere) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d images have the name %s", found, name)
		}
	}
}

func TestInvalidRepositories(t *testing.T) {
	r := Repositories{"etcd": "a/b", "pause": "", "coredns": "a/b:tag", "hortus": "a/b@sha256:0", "kubelet": "a:5000/b"}
	err := errors.Join(r.Validate()...)
	for _, want := range []string{"etcd: unknown", "pause: invalid", "coredns: invalid", "hortus: invalid"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "kubelet: ") {
		t.Errorf("error is %v, want nothing about kubelet", err)
	}
}
