package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup/restore"
)

// measureTimeout bounds the start of etcd for reading its log.
const measureTimeout = 2 * time.Minute

// restoreGC trades time for memory: pages of the database file are garbage after each transaction.
const restoreGC = 50

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
		Long: `Make etcd's data directory ready, as an init container of etcd.

It is restored if it is missing, broken, older than the backups, or left behind by an older epoch. What was there is
kept beside it with the suffix ".previous". When neither data nor backups exist, etcd may start empty. The command
fails rather than letting etcd start with less than what is known to exist.`,
		Args: cobra.NoArgs,
	}
	addDataFlags(cmd, &o)
	flags := addStoreFlags(cmd)
	flags.addOwner(cmd)
	cmd.Flags().Int64Var(&o.Target.Revision, "until-revision", 0,
		"restore this revision, once, even if the data directory is fine")
	cmd.Flags().StringVar(&until, "until-time", "",
		"restore the newest backup of this time (RFC 3339), once, even if the data directory is fine")
	cmd.Flags().BoolVar(&o.WholeCluster, "whole-cluster", false,
		"no other member has data: restore each member from the same backup")
	cmd.Flags().Int64Var(&o.RevisionBump, "revision-bump", 1_000_000,
		"how far revisions are moved ahead, so that clients never see them go back")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		debug.SetGCPercent(restoreGC)
		if until != "" {
			var err error
			if o.Target.Time, err = time.Parse(time.RFC3339, until); err != nil {
				return fmt.Errorf("--until-time: invalid value: %q (RFC 3339, such as 2026-01-31T15:04:05Z)", until)
			}
		}
		s, err := flags.open()
		if err != nil {
			return err
		}
		o.Epoch, o.Holder, o.Identity, o.Nonce = flags.epoch, flags.holder, flags.identity, nonce()
		o.Store, o.Clock, o.Measure = s, clock.RealClock{}, measure
		o.Progress = restore.Progress{Out: cmd.OutOrStdout(), Clock: clock.RealClock{}}
		_, err = restore.Run(cmd.Context(), o)
		return err
	}
	return cmd
}

// measure runs the hidden command in a process of its own: etcd ends the process when it finds its log damaged.
func measure(ctx context.Context, o restore.Options) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	program, err := executable()
	if err != nil {
		return 0, err
	}
	child := exec.CommandContext(ctx, program, "etcd-backup", "measure", "--data-dir="+o.DataDir, "--name="+o.Name,
		"--initial-cluster="+o.InitialCluster, "--initial-cluster-token="+o.InitialClusterToken,
		"--initial-advertise-peer-urls="+strings.Join(o.InitialAdvertisePeerURLs, ","))
	var errors, out bytes.Buffer
	child.Stderr, child.Stdout, child.Env = &errors, &out, os.Environ()
	err = child.Run()
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("start etcd on the data directory: %w", ctx.Err())
	case child.ProcessState == nil || !child.ProcessState.Exited() && err != nil:
		return 0, fmt.Errorf("%w: %w", errNoChild, err) // Not started, or ended by a signal such as of a memory limit.
	case err != nil && out.Len() == 0 && !strings.Contains(errors.String(), restore.ErrBroken.Error()) &&
		!strings.Contains(errors.String(), "panic"):
		// Etcd ends the process without a word when it finds its data damaged; other failures have a message.
		if message := lastLine(errors.String()); message != "" {
			return 0, fmt.Errorf("%w: %s", errNoChild, message)
		}
		return 0, fmt.Errorf("%w: it has ended without a message", restore.ErrBroken)
	case err != nil:
		return 0, fmt.Errorf("%w: %s", restore.ErrBroken, lastLine(errors.String()))
	}
	revision, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: no revision in its output", errNoChild)
	}
	return revision, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
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
