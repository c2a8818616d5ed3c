package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func newMoveShootCommand(c *command) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "shoot NAME --to SEED",
		Short: "Move the control plane of a Shoot to another Seed and wait for it",
		Long: `Move the control plane of a Shoot to another Seed and wait for it. Nodes and their workload keep running; the API server
is unavailable for a moment.

The command can be repeated: if the Shoot is bound to the Seed already, it only waits. To cancel a move that has not been
handed over, move the Shoot to the Seed it is on. If the destination cannot run the control plane, move the Shoot to
another Seed, or back.

--source-is-dead is for a Seed that is lost. The destination takes over from the last backup:
what is not in it is lost. It also helps a move that does not end because its source died after it had begun.`,
		Example: `  hortus move shoot demo -n garden-dev --to local-2
  hortus move shoot demo -n garden-dev --to local-2 --source-is-dead`,
		RunE: func(cmd *cobra.Command, args []string) error {
			garden, err := c.connect()
			if err != nil {
				return err
			}
			return c.moveShoot(cmd, garden, types.NamespacedName{Namespace: namespace, Name: args[0]})
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "garden-dev", "namespace of the Shoot's project")
	cmd.Flags().StringVar(&c.to, "to", "", "the Seed to move to")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask for the confirmation that --source-is-dead needs")
	c.addFlags(cmd)
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // The flag is defined above.
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.complete(cmd, &corev1beta1.ShootList{}, begun, client.InNamespace(namespace))
	}
	return cmd
}

func (c *command) moveShoot(cmd *cobra.Command, garden client.WithWatch, key types.NamespacedName) error {
	ctx, log := cmd.Context(), cmd.ErrOrStderr()
	s := &corev1beta1.Shoot{}
	if err := garden.Get(ctx, key, s); err != nil {
		return fmt.Errorf("read Shoot %s: %w", key, err)
	}
	request, err := c.needsRequest(s)
	if err != nil {
		return err
	}
	if request && c.sourceIsDead {
		seed := cmp.Or(ptr.Deref(s.Status.SeedName, ""), *s.Spec.SeedName)
		if err := c.confirmDeath(cmd, garden, seed, s.Name, "move it without its Seed"); err != nil {
			return err
		}
	}
	began := c.clock.Now()
	switch {
	case request:
		if s, err = c.bind(ctx, garden, s, c.to); err != nil {
			return err
		}
	case progressOf(s, began).state == Moved:
		fmt.Fprintf(log, "Shoot %s is on Seed %s already.\n", key, c.to)
	default:
		fmt.Fprintf(log, "Shoot %s is bound to Seed %s already.\n", key, c.to)
	}
	p, err := c.follow(ctx, garden, s, &reporter{out: log, every: 2 * time.Second})
	if errors.Is(err, context.Canceled) {
		const text = "interrupted: the move of Shoot %s continues without this command; the same command waits for it again"
		return fmt.Errorf(text, key)
	}
	if err != nil {
		return err
	}
	result := Result{Namespace: key.Namespace, Name: key.Name, To: c.to, State: p.state, Message: p.message}
	if request {
		result.TookSeconds = c.clock.Since(began).Seconds()
	}
	if err := c.show(cmd.OutOrStdout(), []Result{result}); err != nil {
		return err
	}
	if p.state != Moved {
		return fmt.Errorf("Shoot %s has not moved to Seed %s", key, c.to)
	}
	return nil
}

// needsRequest reports whether the API server must be sent a request for the move.
func (c *command) needsRequest(s *corev1beta1.Shoot) (bool, error) {
	bound, on := ptr.Deref(s.Spec.SeedName, ""), ptr.Deref(s.Status.SeedName, "")
	switch {
	case on == "" && c.sourceIsDead && bound != "":
		return bound != c.to, nil
	case on == "":
		return false, fmt.Errorf("Shoot %s/%s has no control plane yet", s.Namespace, s.Name)
	case bound == c.to && (!c.sourceIsDead || on == c.to || s.SourceIsDead()):
		return false, nil
	case c.sourceIsDead && on == c.to:
		return false, fmt.Errorf("--source-is-dead: the control plane of Shoot %s/%s is on Seed %s, which --to names",
			s.Namespace, s.Name, on)
	}
	return true, nil
}

// confirmDeath explains the consequences of declaring a Seed dead, and asks for confirmation.
func (c *command) confirmDeath(cmd *cobra.Command, garden client.Client, seed, name, purpose string) error {
	last, err := lastSign(cmd.Context(), garden, seed)
	if err != nil {
		return err
	}
	fmt.Fprint(cmd.ErrOrStderr(), last.describe(c.clock.Now()))
	if c.yes {
		return nil
	}
	return confirm(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), name, purpose)
}

// follow waits until the control plane has moved to the Seed that the Shoot is bound to, or somebody has to act.
func (c *command) follow(
	ctx context.Context, garden client.WithWatch, s *corev1beta1.Shoot, r *reporter,
) (progress, error) {
	key, began := client.ObjectKeyFromObject(s), c.clock.Now()
	v, err := watchShoots(ctx, garden, client.InNamespace(s.Namespace), client.MatchingFields{"metadata.name": s.Name})
	if err != nil {
		return progress{}, err
	}
	for {
		shown := newer(v.get(key), s)
		var p progress
		switch {
		case shown == nil && s.DeletionTimestamp != nil:
			p = progress{Moved, ""}
		case shown == nil:
			p = progress{Failed, "it has been deleted"}
		case ptr.Deref(shown.Spec.SeedName, "") != c.to:
			p = progress{Failed, fmt.Sprintf("the Shoot has been bound to Seed %s since", ptr.Deref(shown.Spec.SeedName, ""))}
		default:
			p = progressOf(shown, c.clock.Now())
		}
		r.say(key, p, c.to, c.clock.Since(began), c.clock.Now())
		if p.state != Moving {
			return p, nil
		}
		if err := v.wait(ctx, r.out); err != nil {
			return progress{}, err
		}
	}
}
