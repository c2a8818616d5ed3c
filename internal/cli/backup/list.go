package backup

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"

	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
)

func newListCommand(c *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list SHOOT",
		Short: "List what a Shoot can be restored to",
		Long: `List what a Shoot can be restored to. Each line is a full snapshot with the deltas that extend it: every revision in between
can be restored, except from before the Shoot was created or the encryption of its etcd was changed. The list is read from
the object store, so it is complete even when the seed is lost. JSON and YAML have every delta.`,
		Example: `  hortus backup list demo -n garden-dev
  hortus backup list demo -n garden-dev -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			garden, err := c.connect()
			if err != nil {
				return err
			}
			s, err := c.shoot(cmd.Context(), garden, args[0])
			if err != nil {
				return err
			}
			found, err := backups(cmd.Context(), garden, s)
			if err != nil {
				return err
			}
			return c.show(cmd.OutOrStdout(), found, func(out io.Writer) { writeChains(out, found) })
		},
	}
	c.addFlags(cmd)
	return cmd
}

func writeChains(out io.Writer, found *backupv1alpha1.ShootBackups) {
	fmt.Fprintln(out, "FULL SNAPSHOT\tREVISION\tUP TO\tUP TO REVISION\tDELTAS\tSIZE")
	for _, c := range found.Chains {
		last, size := newest(c), int64(0)
		for _, b := range append([]backupv1alpha1.Backup{c.Full}, c.Deltas...) {
			size += b.SizeBytes
		}
		fmt.Fprintf(out, "%s\t%d\t%s\t%d\t%d\t%.1f MiB\n", stamp(c.Full.Time.Time), c.Full.LastRevision,
			stamp(last.Time.Time), last.LastRevision,
			len(c.Deltas), float64(size)/(1<<20))
	}
	if from := found.RestorableFrom; from != nil {
		fmt.Fprintf(out, "Points can be restored from revision %d, %s, on.\n", from.Revision, stamp(from.Time.Time))
	}
	if found.Truncated {
		fmt.Fprintln(out, "Older backups are left out.")
	}
}

// newest returns the last backup of a chain.
func newest(c backupv1alpha1.BackupChain) backupv1alpha1.Backup {
	if n := len(c.Deltas); n > 0 {
		return c.Deltas[n-1]
	}
	return c.Full
}

// stamp formats a time as --to accepts it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// when returns the time of an event's last occurrence.
func when(e *eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
