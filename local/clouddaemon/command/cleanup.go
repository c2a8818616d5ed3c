//go:build linux

package command

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/local/clouddaemon/cleanup"
)

func newCleanupCommand(stateDir *string) *cobra.Command {
	var o cleanup.Options
	command := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove everything the cloud has made on this host",
		Long: `Remove everything the cloud has made on this host: instances, networks, containerd's data, and its own state. It works
when the daemon and containerd are dead, and may be repeated. The daemon must not run.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return errors.New("cleanup: requires root")
			}
			o.StateDir = *stateDir
			return cleanup.Run(command.Context(), o)
		},
	}
	command.Flags().StringVar(&o.RunDir, "run-dir", defaultRunDir, "directory of sockets and mounts")
	command.Flags().StringVar(&o.Containerd, "containerd", defaultContainerd, "socket of the host's containerd")
	return command
}
