package image

import (
	"strings"

	"hortus.dev/hortus/internal/components"
	"hortus.dev/hortus/internal/version"
)

// Names of the images that come in one version.
const (
	Etcd    = "registry.k8s.io/etcd:" + components.EtcdVersion + "-0"
	CoreDNS = "registry.k8s.io/coredns/coredns:v" + components.CoreDNSVersion
	Pause   = "registry.k8s.io/pause:" + components.PauseVersion
	Echo    = "hortus.dev/echo:1.0.0"
)

// MachineVersions lists the versions of the machine image, newest first. They differ only in what os-release says,
// which is enough to roll machines from one to the other.
var MachineVersions = []string{"1.2.0", "1.1.0", "1.0.0"}

// Hortus is the image of this very version of the project.
func Hortus() string { return "hortus.dev/hortus:" + version.Version }

// Machine is the root file system of a machine, for a version out of [MachineVersions].
func Machine(version string) string { return "hortus.dev/machine:" + strings.TrimPrefix(version, "v") }

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

// Names returns every image that can be built, in the order in which a build makes them.
func Names() []string {
	names := []string{Pause, Etcd}
	for _, v := range components.KubernetesVersions {
		names = append(names, Kubernetes(v)...)
	}
	for _, v := range MachineVersions {
		names = append(names, Machine(v))
	}
	return append(append(names, CoreDNS, Hortus(), Echo), E2E()...)
}
