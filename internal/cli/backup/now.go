package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func newNowCommand(c *command) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "now SHOOT",
		Short: "Take a full snapshot of a Shoot's etcd now",
		Long: `Take a full snapshot of a Shoot's etcd now, wait for it and print it. Changes are backed up within a minute anyway; a full snapshot
before a risky change is kept longer and is quicker to restore.`,
		Example: `  hortus backup now demo -n garden-dev`,
		RunE: func(cmd *cobra.Command, args []string) error {
			garden, err := c.connect()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			taken, err := c.now(ctx, garden, args[0])
			if err != nil {
				return err
			}
			return c.show(cmd.OutOrStdout(), taken, func(out io.Writer) {
				fmt.Fprintln(out, "FULL SNAPSHOT\tREVISION\tSIZE")
				fmt.Fprintf(out, "%s\t%d\t%.1f MiB\n", stamp(taken.Time.Time), taken.LastRevision, float64(taken.SizeBytes)/(1<<20))
			})
		},
	}
	c.addFlags(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute,
		"how long to wait for the snapshot; after that the request is withdrawn")
	return cmd
}

// now requests a snapshot and waits until the gardenlet has removed the request.
func (c *command) now(ctx context.Context, garden client.WithWatch, name string) (*backupv1alpha1.Backup, error) {
	s, err := c.shoot(ctx, garden, name)
	if err != nil {
		return nil, err
	}
	before, err := backups(ctx, garden, s)
	if err != nil {
		return nil, err
	}
	const request = corev1beta1.AnnotationTakeBackup
	if err := annotate(ctx, garden, s, request, stamp(c.clock.Now())); err != nil {
		return nil, err
	}
	err = await(ctx, garden, s, func(s *corev1beta1.Shoot) bool { _, waits := s.Annotations[request]; return !waits })
	if errors.Is(err, context.DeadlineExceeded) {
		withdraw, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil,
			errors.Join(fmt.Errorf("the gardenlet of Seed %q has not taken the snapshot in time; the request is withdrawn",
				seedOf(s)),
				annotate(withdraw, garden, s, request, ""))
	}
	if err != nil {
		return nil, err
	}
	after, err := backups(ctx, garden, s)
	if err != nil {
		return nil, err
	}
	if taken := newFull(before, after); taken != nil {
		return taken, nil
	}
	if why := lastEvent(ctx, garden, s, corev1beta1.EventBackupFailed); why != "" {
		return nil, errors.New(why)
	}
	return nil, fmt.Errorf("no snapshot was taken; see the events of Shoot %s/%s", s.Namespace, s.Name)
}

// newFull returns the newest full snapshot that is not in before, nil if there is none.
func newFull(before, after *backupv1alpha1.ShootBackups) *backupv1alpha1.Backup {
	known := map[backupv1alpha1.Backup]bool{}
	for _, c := range before.Chains {
		known[key(c.Full)] = true
	}
	var taken *backupv1alpha1.Backup
	for i := range after.Chains {
		if full := &after.Chains[i].Full; !known[key(*full)] && (taken == nil || taken.Time.Before(&full.Time)) {
			taken = full
		}
	}
	return taken
}

// key returns a backup in a form that can be compared, independent of the time zone.
func key(b backupv1alpha1.Backup) backupv1alpha1.Backup {
	b.Time.Time = b.Time.UTC()
	return b
}

func seedOf(s *corev1beta1.Shoot) string {
	if s.Status.SeedName != nil {
		return *s.Status.SeedName
	}
	return ""
}
