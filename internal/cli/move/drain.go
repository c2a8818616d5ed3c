package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/scheduler"
)

func newDrainSeedCommand(c *command) *cobra.Command {
	var (
		l        limits
		strategy string
	)
	cmd := &cobra.Command{
		Use:   "seed NAME",
		Short: "Move all control planes of a Seed to other Seeds and wait for them",
		Long: `Move all control planes of a Seed to other Seeds and wait for them. Without --to each Shoot gets the Seed that the
scheduler would choose if this one did not exist. Shoots that are being created or deleted are left, unless the Seed is
declared gone: then their destination takes them over as well, and creates or deletes them.

When --failures Shoots have failed, no more are begun. Those under way continue. The command can be repeated: the state
is in the garden, and only what is still on the Seed is moved.

Moving control planes away does not keep the scheduler from placing new ones; the command says how to do that.`,
		Example: `  hortus drain seed local-1
  hortus drain seed local-1 --to local-2 --parallel 10 --failures 1
  hortus drain seed local-1 --source-is-dead`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.seed, l.sourceIsDead = args[0], c.sourceIsDead
			chosen, err := scheduler.ParseStrategy(strategy)
			if err != nil {
				return fmt.Errorf("--strategy: %w", err)
			}
			switch {
			case l.parallel < 1:
				return fmt.Errorf("--parallel: must be at least 1: %d", l.parallel)
			case l.failures < 1:
				return fmt.Errorf("--failures: must be at least 1: %d", l.failures)
			case c.to == l.seed:
				return fmt.Errorf("--to: is the Seed that is drained: %s", c.to)
			}
			garden, err := c.connect()
			if err != nil {
				return err
			}
			d := &drain{
				command: c, garden: garden, limits: l, strategy: chosen, log: cmd.ErrOrStderr(),
				report:  &reporter{out: cmd.ErrOrStderr(), every: 15 * time.Second},
				members: map[types.NamespacedName]*tracked{},
			}
			return d.run(cmd)
		},
	}
	cmd.Flags().StringVar(&c.to, "to", "", "the Seed to move to; empty: chosen for each Shoot, as the scheduler would")
	cmd.Flags().StringVar(&strategy, "strategy", string(scheduler.SameRegion),
		"strategy if --to is empty: SameRegion or MinimalDistance")
	cmd.Flags().IntVar(&l.parallel, "parallel", 5, "number of concurrent moves")
	cmd.Flags().IntVar(&l.failures, "failures", 3, "start no further moves after this many failures")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask for a confirmation")
	c.addFlags(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.complete(cmd, &corev1beta1.SeedList{}, begun)
	}
	return cmd
}

// drain moves the control planes of a Seed to other Seeds.
type drain struct {
	*command
	garden   client.WithWatch
	limits   limits
	strategy scheduler.Strategy
	log      io.Writer
	report   *reporter
	view     *view
	members  map[types.NamespacedName]*tracked
}

// tracked is a Shoot that has been on the Seed at some time since the command began.
type tracked struct {
	member
	// answered is the Shoot in the API server's response to binding it.
	answered     *corev1beta1.Shoot
	began, ended time.Time
}

func (d *drain) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if err := d.checkSeed(ctx); err != nil {
		return err
	}
	var err error
	if d.view, err = watchShoots(ctx, d.garden); err != nil {
		return err
	}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if len(d.members) == 0 {
		fmt.Fprintf(d.log, "No Shoot is on Seed %s.\n", d.limits.seed)
		return d.show(cmd.OutOrStdout(), []Result{})
	}
	if err := d.confirm(cmd); err != nil {
		return err
	}
	err = d.loop(ctx)
	results, counts := d.results()
	if shown := d.show(cmd.OutOrStdout(), results); shown != nil {
		return shown
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted: %d moves continue without this command; the same command continues to drain Seed %s",
			counts[Moving], d.limits.seed)
	case err != nil:
		return err
	case counts[Failed] > 0:
		return fmt.Errorf("Seed %s: %d Shoots failed, %d were not begun; the same command moves what is still on the Seed",
			d.limits.seed, counts[Failed], counts[Waiting])
	case counts[Left] > 0:
		fmt.Fprintf(d.log, "%d Shoots of Seed %s are left where they are.\n", counts[Left], d.limits.seed)
	}
	return nil
}

// checkSeed reads the Seed, and prints a hint if the scheduler may place new Shoots there.
func (d *drain) checkSeed(ctx context.Context) error {
	seed := &corev1beta1.Seed{}
	err := d.garden.Get(ctx, client.ObjectKey{Name: d.limits.seed}, seed)
	switch {
	case apierrors.IsNotFound(err) && d.sourceIsDead:
		return nil
	case err != nil:
		return fmt.Errorf("read Seed %s: %w", d.limits.seed, err)
	case schedulable(seed):
		fmt.Fprintf(d.log, `The scheduler may place new Shoots on Seed %[1]s. To prevent that:
  kubectl patch seed %[1]s --type=merge -p '{"spec":{"settings":{"scheduling":{"visible":false}}}}'
`, seed.Name)
	}
	return nil
}

// schedulable reports whether the scheduler considers a Seed.
func schedulable(seed *corev1beta1.Seed) bool {
	settings := seed.Spec.Settings
	return seed.DeletionTimestamp == nil && (settings == nil || settings.Scheduling == nil || settings.Scheduling.Visible)
}

// prepare determines the Shoots to move, and their destinations.
func (d *drain) prepare(ctx context.Context) error {
	members := d.look()
	everything := d.limits
	everything.failures = len(members) + 1 // Show all Shoots, including moves that failed before.
	return d.choose(ctx, next(everything, members, d.clock.Now()).choose)
}

func (d *drain) confirm(cmd *cobra.Command) error {
	members := d.look()
	p := next(d.limits, members, d.clock.Now())
	fmt.Fprintf(d.log, "%d Shoots are on Seed %s:\n", len(members), d.limits.seed)
	for i, m := range members {
		text := p.states[i].message
		if p.states[i].state == Waiting && d.destination(m) != "" && !p.stopped {
			text = "to Seed " + d.destination(m)
		}
		fmt.Fprintf(d.log, "  %s: %s %s\n", m.key, p.states[i].state, text)
	}
	if d.sourceIsDead {
		return d.confirmDeath(cmd, d.garden, d.limits.seed, d.limits.seed, "drain it without its gardenlet")
	}
	if d.yes {
		return nil
	}
	return confirm(cmd.Context(), cmd.InOrStdin(), d.log, d.limits.seed, "drain it")
}

// look updates the members, and returns them sorted.
func (d *drain) look() []member {
	for _, shoot := range d.view.all() {
		if key := client.ObjectKeyFromObject(shoot); d.members[key] == nil && concerns(d.limits.seed, shoot) {
			d.members[key] = &tracked{member: member{key: key, to: d.to}}
		}
	}
	keys := slices.Collect(maps.Keys(d.members))
	sortKeys(keys)
	members := make([]member, 0, len(keys))
	for _, key := range keys {
		t := d.members[key]
		t.shoot = newer(d.view.get(key), t.answered)
		members = append(members, t.member)
	}
	return members
}

// destination returns the Seed that a Shoot is bound to, or is to be bound to.
func (d *drain) destination(m member) string {
	if m.shoot != nil {
		if bound := ptr.Deref(m.shoot.Spec.SeedName, ""); bound != d.limits.seed {
			return bound
		}
	}
	return m.to
}

// loop moves the Shoots until no move is in progress and none is left to start.
func (d *drain) loop(ctx context.Context) error {
	for {
		members := d.look()
		p := next(d.limits, members, d.clock.Now())
		d.note(members, p)
		if p.done {
			return nil
		}
		err := d.choose(ctx, p.choose)
		for _, key := range p.begin {
			if err == nil {
				err = d.begin(ctx, d.members[key])
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			fmt.Fprintf(d.log, "Tried again: %v\n", err)
		case len(p.choose)+len(p.begin) > 0:
			continue
		}
		if err := d.view.wait(ctx, d.log); err != nil {
			return err
		}
	}
}

// choose selects the destinations of Shoots.
func (d *drain) choose(ctx context.Context, keys []types.NamespacedName) error {
	if len(keys) == 0 {
		return nil
	}
	fleet, err := scheduler.ReadFleet(ctx, d.garden)
	if err != nil {
		return fmt.Errorf("choose Seeds for Shoots: %w", err)
	}
	planned := map[types.NamespacedName]string{}
	for key, t := range d.members {
		if t.to != "" && !t.begun {
			planned[key] = t.to
		}
	}
	for key, decision := range scheduler.Elsewhere(fleet, d.limits.seed, d.strategy, keys, planned) {
		d.members[key].to, d.members[key].noSeed = decision.Seed, decision.Error
	}
	return nil
}

// begin binds a Shoot to its destination. If the API server rejects that, the Shoot's move has failed; other errors are
// returned.
func (d *drain) begin(ctx context.Context, t *tracked) error {
	t.began = d.clock.Now()
	answered, err := d.bind(ctx, d.garden, t.shoot, d.destination(t.member))
	switch {
	case passes(err):
		return err
	case err != nil:
		t.refused = err.Error()
		return nil
	}
	t.answered, t.begun = answered, true
	return nil
}

// passes reports whether an error is temporary: about the connection or the server's state, not about the request.
func passes(err error) bool {
	if err == nil {
		return false
	}
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsConflict(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err)
}

// note records the times of moves, and prints changes.
func (d *drain) note(members []member, p plan) {
	now := d.clock.Now()
	for i, m := range members {
		t := d.members[m.key]
		switch p.states[i].state {
		case Moving:
			if t.began.IsZero() {
				t.began = now
			}
			t.ended = time.Time{}
		case Moved, Failed:
			if t.ended.IsZero() {
				t.ended = now
			}
		}
		d.report.say(m.key, p.states[i], d.destination(m), t.took(now), now)
	}
}

// took returns how long the move has been observed.
func (t *tracked) took(now time.Time) time.Duration {
	switch {
	case t.began.IsZero():
		return 0
	case t.ended.IsZero():
		return now.Sub(t.began)
	}
	return t.ended.Sub(t.began)
}

// results returns the outcome of every Shoot, and the number of Shoots with each outcome.
func (d *drain) results() ([]Result, map[State]int) {
	members, now := d.look(), d.clock.Now()
	p := next(d.limits, members, now)
	counts, results := map[State]int{}, []Result{}
	for i, m := range members {
		counts[p.states[i].state]++
		results = append(results, Result{
			Namespace: m.key.Namespace, Name: m.key.Name, To: d.destination(m), State: p.states[i].state,
			TookSeconds: d.members[m.key].took(now).Seconds(), Message: p.states[i].message,
		})
	}
	return results, counts
}
