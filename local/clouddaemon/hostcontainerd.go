package clouddaemon

import (
	"fmt"
	"path/filepath"
	"strings"
)

// HostContainerd describes the containerd on the host that runs the instances.
type HostContainerd struct {
	// Root keeps images and snapshots, on a disk that can hold overlay upper directories.
	Root string
	// State keeps sockets and mounts until the next reboot.
	State string
	// Socket is the path of the API's socket.
	Socket string
	// LogLevel is one of containerd's; empty means info.
	LogLevel string
}

// disabledPlugins are the plugins that the cloud does not use: the Kubernetes interface, other snapshotters, image
// pulls through containerd.
var disabledPlugins = []string{
	"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
	"io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
	"io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
	"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.erofs",
	"io.containerd.differ.v1.erofs", "io.containerd.podsandbox.controller.v1.podsandbox",
	"io.containerd.sandbox.controller.v1.shim",
}

// Render returns containerd's configuration file.
func (h HostContainerd) Render() string {
	level := h.LogLevel
	if level == "" {
		level = "info"
	}
	quoted := make([]string, 0, len(disabledPlugins))
	for _, p := range disabledPlugins {
		quoted = append(quoted, fmt.Sprintf("  %q", p))
	}
	return fmt.Sprintf(`version = 3
root = %q
state = %q
disabled_plugins = [
%s,
]

[grpc]
address = %q

[ttrpc]
address = %q

[debug]
level = %q
`, h.Root, h.State, strings.Join(quoted, ",\n"), h.Socket, h.Socket+".ttrpc", level)
}

// DefaultHostContainerd is the containerd of a landscape with these directories.
func DefaultHostContainerd(stateDir, runDir string) HostContainerd {
	return HostContainerd{
		Root:   filepath.Join(stateDir, "containerd"),
		State:  filepath.Join(runDir, "containerd"),
		Socket: filepath.Join(runDir, "containerd.sock"),
	}
}
