package images

import (
	"fmt"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/components"
)

// recipe describes the content of an image.
type recipe struct {
	name   string
	layers [][]Entry
	// entrypoint and cmd are the default command of a container, user is its default user; empty means root.
	entrypoint, cmd []string
	user            string
}

// sources are the files that recipes draw on.
type sources struct {
	artifacts string
	// distribution holds the programs and libraries taken from the distribution, ready for a layer.
	distribution []Entry
	// sshServer holds the SSH server that machines have in addition, for people who log in.
	sshServer []Entry
	// tools holds the programs that images of tests have in addition.
	tools []Entry
	// Programs of the project itself.
	hortus, controlPlane, tunnel, machineInit, cniPolicy, echo string
}

// cniPolicy is the name of a CNI plugin in network configurations.
const cniPolicy = "hortus-policy"

// searchPath is set in every image: runtimes set none, and the kubelet finds its helpers by it.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (r recipe) config() v1.Config {
	return v1.Config{
		Env: []string{"PATH=" + searchPath}, Entrypoint: r.entrypoint, Cmd: r.cmd, User: r.user, WorkingDir: "/",
	}
}

// temporary is a folder for everyone, which programs with self-signed certificates or uploads expect.
var temporary = Entry{Path: "tmp", Mode: 0o1777, Dir: true}

// recipeFor returns the recipe of a known image.
func recipeFor(name string, from sources) (recipe, error) {
	r := recipe{name: name}
	single := func(component, program, target string) (recipe, error) {
		file, err := from.program(component, "", program)
		r.layers, r.entrypoint = [][]Entry{{{Path: target, Source: file}, temporary}}, []string{target}
		return r, err
	}
	switch {
	case name == image.Pause, slices.Contains(testPauses, name):
		return single("pause", "pause", "/pause")
	case name == image.Etcd, slices.Contains(testEtcds, name):
		return single("etcd", "etcd", "/usr/local/bin/etcd")
	case name == image.CoreDNS:
		return single("coredns", "coredns", "/coredns")
	case name == image.Hortus():
		return hortusRecipe(name, from)
	case name == image.Gvisor:
		return gvisorRecipe(name, from)
	case name == Echo:
		// The distribution's layer has a shell for exec, and is stored for other images anyway.
		r.layers = [][]Entry{from.distribution, {{Path: "echo", Source: from.echo}}}
		r.entrypoint = []string{"/echo"}
		return r, nil
	}
	for _, i := range testImages {
		if slices.Contains(i.names(), name) {
			return testRecipe(name, i, from)
		}
	}
	for _, v := range MachineVersions {
		if name == Machine(v) {
			return machineRecipe(name, v, from)
		}
	}
	for _, v := range components.KubernetesVersions {
		for i, image := range image.Kubernetes(v) {
			if name == image {
				return kubernetesRecipe(name, v, kubernetesPrograms[i], from)
			}
		}
	}
	return recipe{}, fmt.Errorf("unknown image %q", name)
}

// hortusRecipe: the image of etcd has the same first layer.
func hortusRecipe(name string, from sources) (recipe, error) {
	etcd, err := from.program("etcd", "", "etcd")
	if err != nil {
		return recipe{}, err
	}
	programs := map[string]string{
		"etcd": etcd, "tunnel": from.tunnel, "control-plane": from.controlPlane, "hortus": from.hortus,
		cniPolicy: from.cniPolicy,
	}
	r := recipe{name: name, entrypoint: []string{"/" + image.HortusFolder + "/hortus"}}
	for i, names := range image.HortusLayers {
		var layer []Entry
		for _, program := range names {
			layer = append(layer, Entry{Path: image.HortusFolder + "/" + program, Source: programs[program]})
		}
		if i == 0 || i == len(image.HortusLayers)-1 {
			layer = append(layer, temporary)
		}
		r.layers = append(r.layers, layer)
	}
	return r, nil
}

// gvisorRecipe: machines take both programs out of the image.
func gvisorRecipe(name string, from sources) (recipe, error) {
	selected, err := components.Select(components.All(), "gvisor")
	if err != nil {
		return recipe{}, err
	}
	r := recipe{name: name, entrypoint: []string{"/usr/local/bin/runsc"}}
	layer := []Entry{temporary}
	for _, program := range selected[0].Programs {
		layer = append(layer, Entry{
			Path: "usr/local/bin/" + program.Name, Source: selected[0].Path(from.artifacts, program.Name),
		})
	}
	r.layers = [][]Entry{layer}
	return r, nil
}

// kubernetesPrograms are in the order of [Kubernetes].
var kubernetesPrograms = []string{
	"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet",
}

// componentsOf names the components an image needs, in the form [components.Select] takes.
func componentsOf(name string) []string {
	switch {
	case name == image.Pause, slices.Contains(testPauses, name):
		return []string{"pause"}
	case name == image.Etcd, name == image.Hortus(), slices.Contains(testEtcds, name):
		return []string{"etcd"}
	case name == image.CoreDNS:
		return []string{"coredns"}
	case name == image.Gvisor:
		return []string{"gvisor"}
	case usesTools(name):
		return []string{testComponent + "@v" + components.KubernetesDefaultVersion, "sample-apiserver"}
	}
	for _, v := range MachineVersions {
		if name == Machine(v) {
			return []string{"containerd", "runc", "cni"}
		}
	}
	for _, v := range components.KubernetesVersions {
		for _, image := range image.Kubernetes(v) {
			if name == image {
				return []string{"kubernetes@v" + v}
			}
		}
	}
	return nil
}

// usesDistribution says whether the image contains programs of the distribution.
func usesDistribution(name string) bool {
	if name == Echo || usesTools(name) {
		return true
	}
	for _, v := range MachineVersions {
		if name == Machine(v) {
			return true
		}
	}
	for _, v := range components.KubernetesVersions {
		if name == image.KubeProxy(v) {
			return true
		}
	}
	return false
}

// program returns the path of a component's program. The version may be empty where there is only one.
func (s sources) program(component, version, program string) (string, error) {
	selector := component
	if version != "" {
		selector += "@v" + version
	}
	found, err := components.Select(components.All(), selector)
	if err != nil {
		return "", err
	}
	return found[0].Path(s.artifacts, program), nil
}

// kubernetesRecipe: the five images of a version have the same layer, with the one program under five names.
func kubernetesRecipe(name, version, program string, from sources) (recipe, error) {
	file, err := from.program("kubernetes", version, "hyperkube")
	if err != nil {
		return recipe{}, err
	}
	const dir = "usr/local/bin/"
	// The kubelet is the regular file, because it is extracted from its image.
	layer := []Entry{
		{Path: dir + "kubelet", Source: file}, temporary, {Path: dir + "hyperkube", Hardlink: dir + "kubelet"},
	}
	for _, link := range components.HyperkubeLinks {
		if link != "kubelet" {
			layer = append(layer, Entry{Path: dir + link, Hardlink: dir + "kubelet"})
		}
	}
	r := recipe{name: name, layers: [][]Entry{layer}, entrypoint: []string{"/" + dir + program}}
	if program == "kube-proxy" {
		r.layers = append(r.layers, from.distribution)
	}
	return r, nil
}

// machineRecipe: the layers are ordered from the least to the most frequently changed, and only the last differs
// between versions.
func machineRecipe(name, version string, from sources) (recipe, error) {
	var runtime []Entry
	for _, p := range []struct{ component, dir string }{
		{"containerd", "usr/local/bin"}, {"runc", "usr/local/bin"}, {"cni", "opt/cni/bin"},
	} {
		selected, err := components.Select(components.All(), p.component)
		if err != nil {
			return recipe{}, err
		}
		for _, program := range selected[0].Programs {
			runtime = append(runtime, Entry{
				Path: path.Join(p.dir, program.Name), Source: selected[0].Path(from.artifacts, program.Name),
			})
		}
	}
	return recipe{
		name: name,
		layers: [][]Entry{
			from.distribution,
			from.sshServer,
			runtime,
			append(machineFiles(),
				Entry{Path: "sbin/init", Source: from.machineInit},
				Entry{Path: "opt/cni/bin/" + cniPolicy, Source: from.cniPolicy}),
			{{Path: "etc/os-release", Content: osRelease(version)}},
		},
		entrypoint: []string{"/sbin/init"},
	}, nil
}
