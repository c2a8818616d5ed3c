package components

import (
	"fmt"
	"hortus.dev/hortus/internal/image"
	"path/filepath"
	"strings"
)

// Versions of the components that come in one version. Image tags are derived from them.
const (
	ContainerdVersion = "2.3.7"
	RuncVersion       = "1.5.2"
	CNIVersion        = "1.9.1"
)

// KubernetesDefaultVersion is the version of the landscape's own clusters; it is built before its first use.
const KubernetesDefaultVersion = "1.36.3"

// KubernetesVersions lists every Kubernetes version that can be built, newest first, without the leading v.
var KubernetesVersions = []string{KubernetesDefaultVersion, "1.36.1", "1.35.4", "1.34.4"}

// E2EVersions lists the Kubernetes versions whose own end-to-end tests can be built: the newest of each minor, newest
// first.
var E2EVersions = []string{KubernetesDefaultVersion, "1.35.4", "1.34.4"}

// Component is a set of programs built from one source in one version.
type Component struct {
	// Name and Version determine the folder of the programs: <artifacts>/bin/<Name>/<Version>. Version starts with v.
	Name, Version string
	// Folder is the source folder below the components folder. It is unique, so it also selects the component by name.
	Folder   string
	Programs []Program
	// OnDemand components are built when something needs them, not by a plain "components build".
	OnDemand bool
	// Language of the source; Go unless stated.
	Language Language
	// Tags and LDFlags are passed to go build in addition to the common ones.
	Tags    []string
	LDFlags []string
	// CGO links against libraries of the distribution, statically.
	CGO bool
	// Needs lists what the distribution must provide for the build.
	Needs []DebianPackage
}

// Language is the language of a component's source.
type Language string

const (
	Go Language = "go"
	C  Language = "c"
)

// Program is one executable of a component.
type Program struct {
	Name string
	// Source is the Go package, or the C file, it is built from; "." is the wrapper module itself.
	Source string
	// Links are further names of the same file. Programs that look at their own name behave accordingly.
	Links []string
}

// HyperkubeLinks are the programs inside hyperkube, which behaves as the program by whose name it is called.
var HyperkubeLinks = []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet"}

// All returns the table of components in the order in which they are built.
func All() []Component {
	var all []Component
	for _, version := range KubernetesVersions {
		all = append(all, kubernetes(version))
	}
	for _, version := range E2EVersions {
		all = append(all, e2e(version))
	}
	const containerdModule = "github.com/containerd/containerd/v2"
	const cniModule = "github.com/containernetworking/plugins/plugins"
	return append(all,
		Component{
			Name: "etcd", Version: "v" + image.EtcdVersion, Folder: "etcd",
			Programs: []Program{{Name: "etcd", Source: "go.etcd.io/etcd/server/v3"}},
			LDFlags:  []string{"-X go.etcd.io/etcd/api/v3/version.GitSHA=v" + image.EtcdVersion},
		},
		Component{
			Name: "containerd", Version: "v" + ContainerdVersion, Folder: "containerd",
			Programs: []Program{
				{Name: "containerd", Source: containerdModule + "/cmd/containerd"},
				{Name: "containerd-shim-runc-v2", Source: containerdModule + "/cmd/containerd-shim-runc-v2"},
				{Name: "ctr", Source: containerdModule + "/cmd/ctr"},
			},
			// Only overlayfs is used; the other snapshotters need C libraries or kernel parts.
			Tags:    []string{"no_btrfs", "no_devmapper", "no_zfs", "no_aufs", "no_erofs"},
			LDFlags: []string{"-X " + containerdModule + "/version.Version=v" + ContainerdVersion},
		},
		Component{
			Name: "runc", Version: "v" + RuncVersion, Folder: "runc",
			Programs: []Program{{Name: "runc", Source: "github.com/opencontainers/runc"}},
			CGO:      true,
			// Without seccomp the kubelet's sandboxes fail: "config provided but seccomp not supported".
			Tags:    []string{"seccomp", "netgo", "osusergo"},
			LDFlags: []string{"-extldflags -static"},
			Needs:   []DebianPackage{gcc, libc, pkgConfig, libseccomp},
		},
		// With its own main package, which replaces a part of the shim.
		Component{
			Name: "gvisor", Version: "v" + image.GvisorVersion, Folder: "gvisor", OnDemand: true,
			Programs: []Program{
				{Name: "runsc", Source: "gvisor.dev/gvisor/runsc"},
				{Name: "containerd-shim-runsc-v1", Source: "./shim"},
			},
		},
		Component{
			Name: "cni", Version: "v" + CNIVersion, Folder: "cni",
			Programs: []Program{
				{Name: "bridge", Source: cniModule + "/main/bridge"},
				{Name: "host-local", Source: cniModule + "/ipam/host-local"},
				{Name: "loopback", Source: cniModule + "/main/loopback"},
				{Name: "portmap", Source: cniModule + "/meta/portmap"},
			},
			LDFlags: []string{"-X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v" + CNIVersion},
		},
		Component{
			Name: "coredns", Version: "v" + image.CoreDNSVersion, Folder: "coredns",
			Programs: []Program{{Name: "coredns", Source: "."}},
		},
		Component{
			Name: "kubectl", Version: "v" + KubernetesDefaultVersion, Folder: "kubectl",
			Programs: []Program{{Name: "kubectl", Source: "."}},
			LDFlags:  versionStamp(KubernetesDefaultVersion),
		},
		Component{
			Name: "helm", Version: "v3.21.4", Folder: "helm", OnDemand: true,
			Programs: []Program{{Name: "helm", Source: "helm.sh/helm/v3/cmd/helm"}},
		},
		// An aggregated server watches kinds of the Shoot's API, and is not ready if an older API lacks one of them. So its
		// minor version is the oldest whose tests can be built.
		Component{
			Name: "sample-apiserver", Version: "v0.34.4", Folder: "sample-apiserver", OnDemand: true,
			Programs: []Program{{Name: "sample-apiserver", Source: "k8s.io/sample-apiserver"}},
		},
		Component{
			Name: "pause", Version: "v" + image.PauseVersion, Folder: "pause", Language: C,
			Programs: []Program{{Name: "pause", Source: "pause.c"}},
			Needs:    []DebianPackage{gcc, libc},
		},
	)
}

func kubernetes(version string) Component {
	return Component{
		Name: "kubernetes", Version: "v" + version, Folder: "kubernetes-" + version,
		Programs: []Program{{Name: "hyperkube", Source: ".", Links: HyperkubeLinks}},
		OnDemand: version != KubernetesDefaultVersion,
		LDFlags:  versionStamp(version),
	}
}

// e2e is the end-to-end tests of a Kubernetes version. Those of the default version come with the programs that the
// tests of all versions run in pods, the others with the kubectl that they test, which is a component of its own in the
// default version.
func e2e(version string) Component {
	major, minor := majorMinor(version)
	c := Component{
		Name: "e2e", Version: "v" + version, Folder: "e2e-" + major + "." + minor,
		Programs: []Program{
			{Name: "e2e.test", Source: "."},
			{Name: "ginkgo", Source: "github.com/onsi/ginkgo/v2/ginkgo"},
		},
		OnDemand: true,
		LDFlags:  versionStamp(version),
	}
	if version == KubernetesDefaultVersion {
		c.Programs = append(c.Programs,
			Program{Name: "agnhost", Source: "k8s.io/kubernetes/test/images/agnhost"},
			Program{Name: "nnp", Source: "./nnp"},
		)
	} else {
		c.Programs = append(c.Programs, Program{Name: "kubectl", Source: "k8s.io/kubernetes/cmd/kubectl"})
	}
	return c
}

// versionStamp makes a Kubernetes program report its version.
func versionStamp(version string) []string {
	major, minor := majorMinor(version)
	const stamp = "-X k8s.io/component-base/version."
	return []string{
		stamp + "gitVersion=v" + version, stamp + "gitMajor=" + major, stamp + "gitMinor=" + minor,
		// A released module has no known commit, but its tag identifies it, too.
		stamp + "gitCommit=v" + version, stamp + "gitTreeState=clean",
	}
}

func majorMinor(version string) (major, minor string) {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ = strings.Cut(rest, ".")
	return major, minor
}

// Select returns the components that names select, in table order. A name is a folder ("kubernetes-1.35.4"), a
// component name with all its versions ("kubernetes"), or both name and version ("kubernetes@v1.35.4", the v may be
// left out).
func Select(all []Component, names ...string) ([]Component, error) {
	wanted := make([]bool, len(all))
	for _, name := range names {
		found := false
		for i, c := range all {
			if name == c.Folder || name == c.Name || name == c.Name+"@"+c.Version || name == c.Name+"@"+c.Version[1:] {
				wanted[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("component: not found: %q (available: %s)", name, strings.Join(folders(all), ", "))
		}
	}
	var selected []Component
	for i, c := range all {
		if wanted[i] {
			selected = append(selected, c)
		}
	}
	return selected, nil
}

func folders(all []Component) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.Folder)
	}
	return names
}

// Dir is the folder that holds the built programs of the component.
func (c Component) Dir(artifacts string) string {
	return filepath.Join(artifacts, "bin", c.Name, c.Version)
}

// Path returns the path of a program of the component after a build.
func (c Component) Path(artifacts, program string) string {
	return filepath.Join(c.Dir(artifacts), program)
}

// String names the component in messages, for example "etcd v3.6.8".
func (c Component) String() string { return c.Name + " " + c.Version }
