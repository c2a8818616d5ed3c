package containerruntime

import (
	"path"
	"slices"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/image"
)

// Handler is what containerd calls the runtime.
const Handler = "runsc"

// containerdUnit is restarted when the configuration of the runtime has changed; pods keep running.
const containerdUnit = "containerd.service"

// config adds the runtime to containerd, which finds its shim by the name of the runtime type.
const (
	configPath = "/etc/containerd/conf.d/gvisor.toml"
	config     = `version = 3

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.` + Handler + `]
  runtime_type = "io.containerd.runsc.v1"
`
)

// programs of the runtime and of its shim.
var programs = []string{"containerd-shim-runsc-v1", "runsc"}

// OfPool says whether a pool of the Shoot has the runtime.
func OfPool(shoot *corev1beta1.Shoot, pool string) bool {
	return slices.ContainsFunc(shoot.Spec.Provider.Workers, func(w corev1beta1.Worker) bool {
		return w.Name == pool && w.CRI != nil && slices.ContainsFunc(w.CRI.ContainerRuntimes,
			func(r corev1beta1.ContainerRuntime) bool { return r.Type == Type })
	})
}

// OnMachines returns the files and the additions to units by which machines have the runtime.
func OnMachines() ([]extensionsv1alpha1.File, []extensionsv1alpha1.Unit) {
	var files []extensionsv1alpha1.File
	for _, program := range programs {
		files = append(files, extensionsv1alpha1.File{
			Path:        path.Join(extensionsv1alpha1.ContainerRuntimeBinaryPath, program),
			Permissions: ptr.To(uint32(0o755)),
			Content: extensionsv1alpha1.FileContent{ImageRef: &extensionsv1alpha1.FileContentImageRef{
				Image: image.Gvisor, FilePathInImage: "/usr/local/bin/" + program,
			}},
		})
	}
	files = append(files, extensionsv1alpha1.File{
		Path: configPath, Permissions: ptr.To(uint32(0o644)),
		Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{Data: config}},
	})
	return files, []extensionsv1alpha1.Unit{{Name: containerdUnit, FilePaths: []string{configPath}}}
}
