package command

import (
	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/etcdbackup/keeper"
)

// NewCommand returns `etcd-backup` with its subcommands.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd-backup",
		Short: "Inspect the backups of an etcd, and restore them",
	}
	cmd.AddCommand(newRestoreCommand(), newListCommand(), newVerifyCommand(), newStatusCommand(),
		newMeasureCommand())
	return cmd
}

// addStoreFlags defines the flags of the store, of which the prefix is required.
func addStoreFlags(cmd *cobra.Command) *keeper.StoreFlags {
	f := &keeper.StoreFlags{}
	f.Add(cmd.Flags())
	require(cmd, "prefix")
	return f
}

func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // The flag is defined by the caller.
		}
	}
}
