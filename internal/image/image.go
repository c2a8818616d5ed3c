// Package image knows the names of the container images that clusters run. They are those of the public images where
// such exist, so that manifests are the same wherever the images come from.
package image

import (
	"strings"

	"hortus.dev/hortus/internal/version"
)

// Versions of what comes in one version, without a leading v.
const (
	EtcdVersion    = "3.6.8"
	CoreDNSVersion = "1.14.7"
	PauseVersion   = "3.10.1"
	// GvisorVersion is the day of a commit: the Go module has no releases.
	GvisorVersion = "20260905"
)

// Names of the images that come in one version.
const (
	Etcd    = "registry.k8s.io/etcd:" + EtcdVersion + "-0"
	CoreDNS = "registry.k8s.io/coredns/coredns:v" + CoreDNSVersion
	Pause   = "registry.k8s.io/pause:" + PauseVersion
	// Gvisor is not a container to run: machines take the programs out of it.
	Gvisor = "hortus.dev/gvisor:" + GvisorVersion
)

// HortusFolder is the folder of the programs in the image of Hortus, and HortusLayers are the programs of its layers,
// from the one that changes least to the one that changes most: etcd is for `hortus etcd run`, control-plane has some
// commands of hortus for control planes, and hortus-policy is a CNI plugin that `hortus network-agent` installs.
const HortusFolder = "usr/local/bin"

var HortusLayers = [][]string{{"etcd"}, {"tunnel"}, {"control-plane"}, {"hortus", "hortus-policy"}}

// ControlPlane is the program of the image of Hortus with the commands that control planes run: with less to initialize
// than hortus, it needs less memory.
const ControlPlane = "/" + HortusFolder + "/control-plane"

// Hortus is the image of this very version of the project.
func Hortus() string { return "hortus.dev/hortus:" + version.Version }

// The images of a Kubernetes version take it as Shoots spell it ("1.36.3"); a leading v is accepted.

func KubeAPIServer(version string) string {
	return kubernetes("registry.k8s.io/kube-apiserver", version)
}

func KubeControllerManager(version string) string {
	return kubernetes("registry.k8s.io/kube-controller-manager", version)
}

func KubeScheduler(version string) string {
	return kubernetes("registry.k8s.io/kube-scheduler", version)
}

func KubeProxy(version string) string { return kubernetes("registry.k8s.io/kube-proxy", version) }

// Kubelet is not a container to run: machines take the program out of it.
func Kubelet(version string) string { return kubernetes("hortus.dev/kubelet", version) }

func kubernetes(repository, version string) string {
	return repository + ":v" + strings.TrimPrefix(version, "v")
}

// Kubernetes returns all images of one Kubernetes version.
func Kubernetes(version string) []string {
	return []string{
		KubeAPIServer(version), KubeControllerManager(version), KubeScheduler(version), KubeProxy(version), Kubelet(version),
	}
}
