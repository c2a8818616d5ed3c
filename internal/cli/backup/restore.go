package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/restorable"
)

func newRestoreCommand(c *command) *cobra.Command {
	var (
		to       string
		revision int64
		yes      bool
		timeout  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "restore SHOOT {--to TIME | --revision N}",
		Short: "Take a Shoot's etcd back to an earlier point",
		Long: `Take a Shoot's etcd back to an earlier point. The API server is stopped, etcd is restored, and the API server comes back; nodes
stay. Everything that was written since is undone. With --to it is the newest backup from before that time. What is undone stays in
the object store for a while.`,
		Example: `  hortus backup restore demo -n garden-dev --to 2026-01-31T15:04:05Z
  hortus backup restore demo -n garden-dev --revision 123456 --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := pointOf(to, revision)
			if err != nil {
				return err
			}
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
			u, err := undone(found, wanted)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.ErrOrStderr(), u.describe(s.Namespace+"/"+s.Name, c.clock.Now()))
			if !yes {
				if err := confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), s.Name); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return c.restore(ctx, garden, s, wanted, cmd.OutOrStdout())
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&to, "to", "", "restore the newest backup from before this time (RFC 3339)")
	cmd.Flags().Int64Var(&revision, "revision", 0, "restore this revision of etcd, as 'hortus backup list' shows them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for a confirmation")
	cmd.Flags().DurationVar(&timeout, "timeout", 15*time.Minute,
		"how long to wait for the end of the restore; it continues after that")
	cmd.MarkFlagsMutuallyExclusive("to", "revision")
	return cmd
}

// point is the point to restore; one of its fields is zero.
type point struct {
	revision int64
	time     time.Time
}

// pointOf reads the flags.
func pointOf(to string, revision int64) (point, error) {
	switch {
	case to == "" && revision == 0:
		return point{}, errors.New("--to or --revision: required value. 'hortus backup list' shows what there is")
	case revision < 0:
		return point{}, fmt.Errorf("--revision: must be positive: %d", revision)
	case to == "":
		return point{revision: revision}, nil
	}
	at, err := time.Parse(time.RFC3339, to)
	if err != nil {
		return point{}, fmt.Errorf("--to: invalid value: %q (RFC 3339, such as 2026-01-31T15:04:05Z)", to)
	}
	return point{time: at}, nil
}

// annotation returns the value of the annotation that requests the restore.
func (p point) annotation() string {
	if p.revision > 0 {
		return fmt.Sprintf("revision=%d", p.revision)
	}
	return "time=" + stamp(p.time)
}

// loss describes what a restore undoes.
type loss struct {
	// restored is the last backup to restore, newest the newest of all.
	restored, newest backupv1alpha1.Backup
	revision         int64 // Of etcd after the restore.
}

// undone determines what a restore undoes. It returns an error if the point cannot be restored.
func undone(found *backupv1alpha1.ShootBackups, p point) (loss, error) {
	var u loss
	if from := found.RestorableFrom; from != nil {
		if problem := (restorable.Point{Time: from.Time.Time, Revision: from.Revision}).Problem(p.revision,
			p.time); problem != "" {
			return u, fmt.Errorf("%s: %s", p.annotation(), problem)
		}
	}
	reached := false
	for _, c := range found.Chains {
		for _, b := range append([]backupv1alpha1.Backup{c.Full}, c.Deltas...) {
			if u.newest.Kind == "" || b.LastRevision > u.newest.LastRevision {
				u.newest = b
			}
			switch {
			case p.revision > 0 && p.revision >= c.Full.LastRevision && p.revision <= b.LastRevision &&
				(!reached || b.LastRevision < u.restored.LastRevision):
				u.restored, u.revision, reached = b, p.revision, true
			case p.revision == 0 && !b.Time.After(p.time) && (!reached || b.LastRevision > u.restored.LastRevision):
				u.restored, u.revision, reached = b, b.LastRevision, true
			}
		}
	}
	if !reached {
		return u, fmt.Errorf("no backup reaches %s. 'hortus backup list' shows what there is", p.annotation())
	}
	return u, nil
}

// describe returns a text about what the restore undoes.
func (u loss) describe(shoot string, now time.Time) string {
	return fmt.Sprintf("Shoot %s will be restored to revision %d, backed up at %s. At least %d revisions of the last %s are undone.\n",
		shoot, u.revision, stamp(u.restored.Time.Time), u.newest.LastRevision-u.revision,
		now.Sub(u.restored.Time.Time).Round(time.Second))
}

// confirm makes the user type the name of the Shoot.
func confirm(in io.Reader, out io.Writer, name string) error {
	fmt.Fprintf(out, "Type %s to restore it: ", name)
	typed, err := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(typed) == name {
		return nil
	}
	fmt.Fprintln(out)
	if err != nil {
		return errors.New("nothing is restored: no confirmation; --yes skips it")
	}
	return errors.New("nothing is restored: the name does not match")
}

// restore requests a restore and waits until the gardenlet has completed it.
func (c *command) restore(
	ctx context.Context, garden client.WithWatch, s *corev1beta1.Shoot, p point, out io.Writer,
) error {
	const request = corev1beta1.AnnotationRestoreBackup
	before, err := outcomes(ctx, garden, s)
	if err != nil {
		return err
	}
	if err := annotate(ctx, garden, s, request, p.annotation()); err != nil {
		return err
	}
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan struct{})
	var outcome *eventsv1.Event
	var watchErr error
	go func() {
		defer close(watched)
		outcome, watchErr = newOutcome(watching, garden, s, before)
		if watchErr == nil && outcome.Reason == corev1beta1.EventBackupNotRestored {
			stop(errors.New(outcome.Note)) // The operation continues without the restore.
		}
	}()
	failing := lasting{patience: errorPatience(ctx), stop: stop}
	defer failing.over()
	generation := s.Generation // The request increments it.
	err = await(watching, garden, s, func(s *corev1beta1.Shoot) bool {
		_, waits := s.Annotations[request]
		op := s.Status.LastOperation
		if waits || s.Generation <= generation || s.Status.ObservedGeneration != s.Generation || op == nil {
			return false
		}
		if op.State == corev1beta1.LastOperationStateError {
			failing.since(fmt.Errorf("the restore of Shoot %s/%s is stuck: %s", s.Namespace, s.Name,
				op.Description))
		} else {
			failing.over()
		}
		return op.State == corev1beta1.LastOperationStateSucceeded || op.State == corev1beta1.LastOperationStateFailed
	})
	if err != nil && ctx.Err() == nil && watching.Err() != nil {
		return context.Cause(watching)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the restore of Shoot %s/%s is not done yet and continues; see its last operation", s.Namespace,
			s.Name)
	}
	if err != nil {
		return err
	}
	now, err := c.shoot(ctx, garden, s.Name)
	if err != nil {
		return err
	}
	if op := now.Status.LastOperation; op.State != corev1beta1.LastOperationStateSucceeded {
		return fmt.Errorf("the restore of Shoot %s/%s is %s: %s", s.Namespace, s.Name, op.State, op.Description)
	}
	patience := time.AfterFunc(eventPatience, func() { stop(nil) })
	defer patience.Stop()
	<-watched
	switch {
	case watchErr != nil:
		return fmt.Errorf("the operation has ended, but no event reports its outcome: %w", watchErr)
	case outcome.Reason == corev1beta1.EventBackupNotRestored:
		return errors.New(outcome.Note)
	}
	_, err = fmt.Fprintln(out, outcome.Note)
	return err
}

// errorPatience returns how long an operation may be in state Error: a tenth of the remaining time. Shorter errors
// resolve themselves, such as those of components that cannot reach the API server while it is stopped.
func errorPatience(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end) / 10
	}
	return time.Minute
}

// lasting cancels a wait if an error persists.
type lasting struct {
	patience time.Duration
	stop     context.CancelCauseFunc
	timer    *time.Timer // Nil while there is no error.
}

// since starts the timer unless it is running.
func (l *lasting) since(err error) {
	if l.timer == nil {
		l.timer = time.AfterFunc(l.patience, func() { l.stop(err) })
	}
}

// over stops the timer.
func (l *lasting) over() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// eventPatience bounds the wait for an event, which may be created a moment after the operation ends.
const eventPatience = 30 * time.Second

// outcomes returns the resource versions of the events about earlier restores, by name.
func outcomes(ctx context.Context, garden client.Client, s *corev1beta1.Shoot) (map[string]string, error) {
	list := &eventsv1.EventList{}
	if err := garden.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
		return nil, fmt.Errorf("list events of Shoot %s/%s: %w", s.Namespace, s.Name, err)
	}
	found := map[string]string{}
	for i := range list.Items {
		if e := &list.Items[i]; isOutcome(e, s) {
			found[e.Name] = e.ResourceVersion
		}
	}
	return found, nil
}

func isOutcome(e *eventsv1.Event, s *corev1beta1.Shoot) bool {
	return e.Regarding.UID == s.UID &&
		(e.Reason == corev1beta1.EventBackupRestored || e.Reason == corev1beta1.EventBackupNotRestored)
}

// newOutcome waits for an event that is not in before.
func newOutcome(
	ctx context.Context, garden client.WithWatch, s *corev1beta1.Shoot, before map[string]string,
) (*eventsv1.Event, error) {
	for {
		w, err := garden.Watch(ctx, &eventsv1.EventList{}, client.InNamespace(s.Namespace))
		if err != nil {
			return nil, fmt.Errorf("watch events of Shoot %s/%s: %w", s.Namespace, s.Name, err)
		}
		var found *eventsv1.Event
		for e := range w.ResultChan() {
			if event, ok := e.Object.(*eventsv1.Event); ok && isOutcome(event, s) &&
				before[event.Name] != event.ResourceVersion {
				found = event
				break
			}
		}
		w.Stop()
		if found != nil {
			return found, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
