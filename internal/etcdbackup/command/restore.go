package command

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup/keeper"
	"hortus.dev/hortus/internal/etcdbackup/restore"
)

func addDataFlags(cmd *cobra.Command, o *restore.Options) {
	cmd.Flags().StringVar(&o.DataDir, "data-dir", "", "etcd's data directory")
	cmd.Flags().StringVar(&o.Name, "name", "default", "name of the member, as of etcd")
	cmd.Flags().StringVar(&o.InitialCluster, "initial-cluster", "default=http://localhost:2380",
		"members of the cluster, as of etcd")
	cmd.Flags().StringVar(&o.InitialClusterToken, "initial-cluster-token", "etcd-cluster",
		"token of the cluster, as of etcd")
	cmd.Flags().StringSliceVar(&o.InitialAdvertisePeerURLs, "initial-advertise-peer-urls",
		[]string{"http://localhost:2380"}, "peer URLs of the member, as of etcd")
	require(cmd, "data-dir")
}

func newRestoreCommand() *cobra.Command {
	var o restore.Options
	var until string
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make etcd's data directory ready: restore it if it is missing, broken or older than the backups",
		Long: `Make etcd's data directory ready, as 'hortus etcd run' does before it starts etcd.

It is restored if it is missing, broken, older than the backups, or left behind by an older epoch. What was there is
kept alongside it with the suffix ".previous". When neither data nor backups exist, etcd may start empty. The command
fails rather than letting etcd start with less than what is known to exist.`,
		Args: cobra.NoArgs,
	}
	addDataFlags(cmd, &o)
	flags := addStoreFlags(cmd)
	flags.AddOwner(cmd.Flags())
	cmd.Flags().Int64Var(&o.Target.Revision, "until-revision", 0,
		"restore this revision, once, even if the data directory is fine")
	cmd.Flags().StringVar(&until, "until-time", "",
		"restore the newest backup of this time (RFC 3339), once, even if the data directory is fine")
	cmd.Flags().BoolVar(&o.WholeCluster, "whole-cluster", false,
		"no other member has data: restore each member from the same backup")
	cmd.Flags().Int64Var(&o.RevisionBump, "revision-bump", restore.DefaultRevisionBump,
		"how far revisions are moved ahead, so that clients never see them go back")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		debug.SetGCPercent(restore.GCPercent)
		if until != "" {
			var err error
			if o.Target.Time, err = time.Parse(time.RFC3339, until); err != nil {
				return fmt.Errorf("--until-time: invalid value: %q (RFC 3339, such as 2026-01-31T15:04:05Z)", until)
			}
		}
		s, err := flags.Open()
		if err != nil {
			return err
		}
		o.Epoch, o.Holder, o.Identity, o.Nonce = flags.Epoch, flags.Holder, flags.Identity, keeper.Nonce()
		o.Store, o.Clock, o.Measure = s, clock.RealClock{}, restore.MeasureInChild
		o.Progress = restore.Progress{Out: cmd.OutOrStdout(), Clock: clock.RealClock{}}
		_, err = restore.Run(cmd.Context(), o)
		return err
	}
	return cmd
}

func newMeasureCommand() *cobra.Command {
	var o restore.Options
	cmd := &cobra.Command{
		Use:    "measure",
		Short:  "Print the revision of a data directory with its log applied",
		Args:   cobra.NoArgs,
		Hidden: true,
	}
	addDataFlags(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		revision, err := restore.MeasureHere(cmd.Context(), o)
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), revision)
		}
		return err
	}
	return cmd
}
