package node

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/csi"
)

// NewCommand returns the command that runs the driver on a node.
func NewCommand() *cobra.Command {
	s := &Server{Mounts: Kernel{}, VolumesDir: cloud.VolumesDir, Version: version()}
	metadata, socketDir, registryDir := csi.Metadata, csi.SocketDir, csi.RegistryDir
	cmd := &cobra.Command{
		Use:   csi.NodeCommand,
		Short: "Mount volumes of the local cloud for the pods of this node",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := readMetadata(metadata)
			if err != nil {
				return err
			}
			s.InstanceID, s.Zone = self.ID, self.Zone
			return Serve(cmd.Context(), s, socketDir, registryDir)
		},
	}
	cmd.Flags().StringVar(&metadata, "metadata", metadata, "file in which the machine finds what it is")
	cmd.Flags().StringVar(&s.VolumesDir, "volumes-dir", s.VolumesDir, "directory in which attached volumes appear")
	cmd.Flags().StringVar(&socketDir, "socket-dir", socketDir, "directory of the driver's socket")
	cmd.Flags().StringVar(&registryDir, "registry-dir", registryDir,
		"directory of the sockets by which the kubelet finds drivers")
	return cmd
}

func readMetadata(path string) (cloud.Metadata, error) {
	var out cloud.Metadata
	data, err := os.ReadFile(path)
	if err != nil {
		return out, fmt.Errorf("read metadata of the machine: %w", err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("parse metadata of the machine: %w", err)
	}
	if out.ID == "" || out.Zone == "" {
		return out, fmt.Errorf("metadata of the machine: id and zone are required: %q, %q", out.ID, out.Zone)
	}
	return out, nil
}

// version returns the version of the module; the interface requires one that is not empty.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
