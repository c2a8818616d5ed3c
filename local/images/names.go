package images

import (
	"strings"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/components"
)

// Echo is a workload that answers with the request it received.
const Echo = "hortus.dev/echo:1.0.0"

// MachineVersions lists the versions of the machine image, newest first. They differ only in what os-release says,
// which is enough to roll machines from one to the other.
var MachineVersions = []string{"1.2.0", "1.1.0", "1.0.0"}

// Machine is the root file system of a machine, for a version out of [MachineVersions].
func Machine(version string) string { return "hortus.dev/machine:" + strings.TrimPrefix(version, "v") }

// Names returns every image that can be built, in the order in which a build makes them.
func Names() []string {
	names := []string{image.Pause, image.Etcd}
	for _, v := range components.KubernetesVersions {
		names = append(names, image.Kubernetes(v)...)
	}
	for _, v := range MachineVersions {
		names = append(names, Machine(v))
	}
	return append(append(names, image.CoreDNS, image.Hortus(), Echo, image.Gvisor), E2E()...)
}
