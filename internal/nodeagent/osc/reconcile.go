package osc

import (
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
)

// Reconcile returns the contents that the node agent keeps applied.
func Reconcile(v Values) extensionsv1alpha1.OperatingSystemConfigSpec {
	files := []extensionsv1alpha1.File{
		inline(config.File, private, v.agentConfig()),
		fromImage(config.Binary, v.HortusImage, programInHortusImage),
		fromImage(config.KubeletBinary, v.KubeletImage, programInKubeletImage),
		inline(config.KubeletConfigFile, private, v.kubeletConfig()),
		inline(config.KubeletCAFile, readable, string(v.kubeletCA())),
		inline(sysctlFile, readable, sysctls),
	}
	if len(v.RootCAs) > 0 {
		files = append(files,
			inline("/var/lib/ca-certificates-local/ROOTcerts.crt", readable, string(v.RootCAs)),
			inline("/etc/pki/trust/anchors/ROOTcerts.pem", readable, string(v.RootCAs)),
		)
	}
	// No unit depends on the keys, so that nothing is restarted for them. They are not in the user data, which is for
	// machines that are new.
	if len(v.AuthorizedKeys) > 0 {
		files = append(files, inline(extensionsv1alpha1.AuthorizedKeysFile, readable, string(v.AuthorizedKeys)))
	}
	agent := agentUnit()
	agent.FilePaths = []string{config.File, config.Binary}
	return extensionsv1alpha1.OperatingSystemConfigSpec{
		DefaultSpec:    extensionsv1alpha1.DefaultSpec{Type: v.Type, ProviderConfig: v.ProviderConfig},
		Purpose:        extensionsv1alpha1.OperatingSystemConfigPurposeReconcile,
		CRIConfig:      v.criConfig(true),
		Files:          files,
		Units:          []extensionsv1alpha1.Unit{containerdUnit(), v.kubeletUnit(), agent},
		InPlaceUpdates: v.InPlaceUpdates,
	}
}

func (v Values) kubeletCA() []byte {
	if len(v.KubeletCABundle) > 0 {
		return v.KubeletCABundle
	}
	return v.CABundle
}

func (v Values) criConfig(full bool) *extensionsv1alpha1.CRIConfig {
	cri := &extensionsv1alpha1.CRIConfig{
		Name: extensionsv1alpha1.CRINameContainerd, CgroupDriver: ptr.To(extensionsv1alpha1.CgroupDriverSystemd),
	}
	if full {
		cri.Containerd = &extensionsv1alpha1.ContainerdConfig{SandboxImage: v.SandboxImage}
	}
	return cri
}

// containerdUnit extends the unit of the machine image. The same drop-in is in the user data, so that containerd does
// not have to be restarted when the node agent takes over.
func containerdUnit() extensionsv1alpha1.Unit {
	return extensionsv1alpha1.Unit{
		Name: config.ContainerdUnitName, Enable: ptr.To(true),
		DropIns: []extensionsv1alpha1.DropIn{{
			Name: "30-env_config.conf",
			Content: `[Service]
Environment="PATH=` + extensionsv1alpha1.ContainerRuntimeBinaryPath + `:/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
`,
		}},
	}
}

const sysctlFile = "/etc/sysctl.d/99-k8s-general.conf"

// sysctls raise the limits that workloads on any node reach first: inotify limits, neighbour tables that hold a few
// thousand pods, memory maps of search engines, and a backlog for busy servers.
const sysctls = `fs.inotify.max_user_instances = 8192
fs.inotify.max_user_watches = 524288
net.core.somaxconn = 4096
net.ipv4.ip_forward = 1
net.ipv4.neigh.default.gc_thresh1 = 1024
net.ipv4.neigh.default.gc_thresh2 = 4096
net.ipv4.neigh.default.gc_thresh3 = 8192
vm.max_map_count = 262144
`
