package machineinit

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// containerdConfig is written unless the machine has one. Compared with containerd's own defaults: images come by way
// of certs.d, files in conf.d are merged, oom scores below the one of process 1 are not tried (without CAP_SYS_RESOURCE
// that fails), and the sandbox image is the one the landscape has. Containers are measured once a minute, not every
// second, because kubelets measure them anyway and an idle machine does little else. Cgroups are managed by cgroupfs,
// which is runc's default, since there is no systemd.
const containerdConfig = `version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "registry.k8s.io/pause:3.10.1"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "/etc/containerd/certs.d"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  stats_collect_period = "1m"
  stats_retention_period = "5m"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
`

const containerdUnit = `[Unit]
Description=containerd container runtime

[Service]
Type=notify
ExecStart=containerd
KillMode=process
Restart=always
RestartSec=1
TimeoutStartSec=60

[Install]
WantedBy=multi-user.target
`

const (
	registryDir    = "/etc/containerd/certs.d/_default/"
	registryCAPath = registryDir + "ca.crt"
	hostsFile      = "hosts.toml"
)

// registryHosts sends pulls of any image to the cloud's registry first; containerd then tries the image's own registry,
// so that a machine with access to the internet can use it.
func registryHosts(m Metadata, withCA bool) string {
	var hosts strings.Builder
	fmt.Fprintf(&hosts, "[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", m.Registry)
	if withCA {
		fmt.Fprintf(&hosts, "  ca = %q\n", registryCAPath)
	}
	if m.RegistryPassword != "" {
		credentials := base64.StdEncoding.EncodeToString([]byte(m.ID + ":" + m.RegistryPassword))
		fmt.Fprintf(&hosts, "  [host.%q.header]\n    authorization = %q\n", m.Registry, "Basic "+credentials)
	}
	return hosts.String()
}
