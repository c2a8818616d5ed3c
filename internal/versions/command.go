package versions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/plan"
)

type command struct {
	clock    clock.PassiveClock
	source   plan.Source
	profiles []string
	until    string
	output   string
	seed     uint64
}

// NewCommand returns 'hortus versions'.
func NewCommand() *cobra.Command { return newCommand(clock.RealClock{}) }

func newCommand(clock clock.PassiveClock) *cobra.Command {
	c := &command{clock: clock}
	cmd := &cobra.Command{
		Use:   "versions [SHOOT]",
		Short: "List the offered versions, or where one Shoot can go and will be moved",
		Example: `  hortus versions
  hortus versions --cloudprofile local -o json
  hortus versions -n garden-dev demo`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), args)
		},
	}
	c.source.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&c.profiles, "cloudprofile", nil, "only these profiles; NamespacedCloudProfiles are named NAMESPACE/NAME")
	flags.StringVar(&c.until, "until", "1y", "for a Shoot: how far to look ahead, such as 2y, 6mo, 90d, or a date")
	flags.StringVarP(&c.output, "output", "o", "table", "table, json or yaml")
	flags.Uint64Var(&c.seed, "jitter-seed", 0, "the maintenance controller's seed, to tell the instant inside each window")
	return cmd
}

func (c *command) run(ctx context.Context, in io.Reader, out io.Writer, args []string) error {
	if !slices.Contains([]string{"table", "json", "yaml"}, c.output) {
		return fmt.Errorf("unknown output %q: use table, json or yaml", c.output)
	}
	now := c.clock.Now().UTC().Truncate(time.Second)
	until, err := plan.ParseUntil(c.until, now)
	if err != nil {
		return fmt.Errorf("--until: %w", err)
	}
	objects, err := c.source.Read(ctx, in)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		return c.outlook(out, objects, args[0], plan.Options{At: now, Until: until, Jitter: maintenance.HashJitter(c.seed)})
	}
	entries, err := Catalogue(objects, c.profiles, now)
	if err != nil {
		return err
	}
	if c.output != "table" {
		return plan.Encode(out, c.output, entries)
	}
	return writeCatalogue(out, entries)
}

func (c *command) outlook(out io.Writer, objects *plan.Objects, name string, options plan.Options) error {
	objects.Shoots = slices.DeleteFunc(objects.Shoots, func(s *corev1beta1.Shoot) bool {
		return s.Name != name && s.Namespace+"/"+s.Name != name
	})
	switch len(objects.Shoots) {
	case 0:
		return fmt.Errorf("there is no Shoot %q", name)
	case 1:
	default:
		return fmt.Errorf("there are %d Shoots %q: name the namespace with -n", len(objects.Shoots), name)
	}
	fleet := plan.NewFleet(objects, options.At)
	profile, err := fleet.Profile(plan.ProfileOf(objects.Shoots[0]))
	if err != nil {
		return err
	}
	p := plan.Make(fleet, options)
	o := OutlookOf(objects.Shoots[0], profile, p.Shoots[0], options.At)
	if c.output != "table" {
		return plan.Encode(out, c.output, o)
	}
	return writeOutlook(out, o, p)
}
